// Package members is the machines of a cluster as its K3s has them. Kubernetes is the way to the
// API, and what it says of the nodes; Turns take nodes down, one after the other; GPUs are what nodes
// offer to Kubernetes; Members join and are upgraded.
package members
