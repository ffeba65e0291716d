// Package nodes answers for nodes: their state, settings, network, certificates and tasks.
package nodes
