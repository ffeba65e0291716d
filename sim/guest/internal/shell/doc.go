// Package shell is sh and bash: the interpreter mvdan.cc/sh, with the machine's files and
// programs in place of those of the host that runs the simulation.
package shell
