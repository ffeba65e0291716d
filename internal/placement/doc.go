// Package placement decides where things go: [Place] gives a host to every node whose file
// says host: auto, and [Allot] gives the cards of a host to the nodes on it. The same
// world gives the same answer, in every run and on every machine.
package placement
