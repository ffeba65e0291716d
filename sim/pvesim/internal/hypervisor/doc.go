// Package hypervisor is what the simulator asks of those who run its machines.
package hypervisor
