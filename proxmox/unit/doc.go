// Package unit has types for two values that are written in several ways: an amount of bytes
// and the address of a PCI device; and how many devices a VM takes.
package unit
