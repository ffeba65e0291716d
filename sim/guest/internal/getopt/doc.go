// Package getopt reads the arguments of programs.
package getopt
