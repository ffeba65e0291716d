// Package members is the machines of a cluster as its K3s has them: joining and upgrading,
// one after the other; the way to the API; nodes with their labels, taints and GPUs; and whose
// work a step would end.
package members
