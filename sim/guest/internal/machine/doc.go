// Package machine is a computer and what runs on it while it is switched on.
//
// A [Machine] is what a hypervisor plugs together, its [Config]. Its [System] is everything
// that a power cut ends: the kernel, mounts, journals, and goroutines. A [Proc] is a program
// that runs on it.
//
// What a program does, what a unit starts and how a machine boots are the business of
// other rooms: [Software] is the table in which they are found. A room that has to
// remember something of a running system keeps it there under a type of its own ([StateOf]).
package machine
