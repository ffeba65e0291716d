// Package labmodel finds the hardware that a cluster file needs, for a lab that
// stands in for it: the smallest of the simulator's own models that will do, or
// one that is made to measure.
//
// It knows of hosts, cards, storages, bridges, memory and templates. Machines that
// are not made by us (external:) are none of the lab's.
package labmodel
