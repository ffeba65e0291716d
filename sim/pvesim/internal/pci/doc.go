// Package pci answers for the PCI functions of nodes and their mappings, and chooses those
// that a machine gets.
package pci
