// Package plane makes real Kubernetes control planes for simulated machines.
//
// A [Factory] starts etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler as child processes on loopback, each cluster with a CA of its own
// and an API server certificate that is good for the names and addresses that the
// cluster's servers have on their virtual network. Nodes join with what their guest
// is; instead of a kubelet, KWOK keeps their status and leases and lets
// long-running pods run, and this package does what needs the guest:
//
//   - a sandbox is made only where containerd knows the pod's runtime class;
//   - a node's GPUs are allocatable only while NVIDIA's device plugin runs there in
//     that runtime and the guest's driver shows them;
//   - a pod that is to end runs its command on the guest's simulated programs, with
//     the files of its config maps and the GPUs that it was given, and has the exit
//     code and termination message that came of it.
//
// What it is not: a cluster that outlives the lab. There is no fsync, and the data
// goes with the process.
package plane
