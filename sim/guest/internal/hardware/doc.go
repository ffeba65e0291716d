// Package hardware shows what a machine is made of, and loads kernel modules for it.
package hardware
