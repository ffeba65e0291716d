// Package kueue plays the manager of Kueue in the lab: while its pod is ready, pods and Jobs of queues
// wait until their quota has room.
//
// What it obeys is read in kubernetes-sigs/kueue v0.19.2: scheduling gate, finalizer, Workload and its
// conditions (pkg/controller/jobs/pod, pkg/workload), quota with borrowing in one cohort and the words
// of what does not fit (pkg/scheduler/flavorassigner), the order of the waiting (who borrows nothing
// first, then the local queue that uses least, then the oldest), reclaiming, and that a ClusterQueue in
// use outlives its deletion. It does not have admission checks, topologies, priorities, several
// flavors and a history of usage.
//
// The manager itself is not built for the lab: it is a program of 150 modules that the lab has no other
// use for, and its webhooks need a network that the lab's API server does not have.
package kueue
