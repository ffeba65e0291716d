// Package plane makes real Kubernetes control planes for simulated machines.
//
// A [Factory] starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler as child
// processes on loopback, each cluster with a CA of its own and an API server certificate for
// the names and addresses of the cluster's servers on their virtual network. Nodes join with
// the properties of their guest. Their kubelets are played by this package, which keeps nodes
// Ready and lets long-running pods appear to run, and does with the guest what needs one:
//
//   - a sandbox is made only where containerd knows the pod's runtime class;
//   - a node's GPUs are allocatable only while NVIDIA's device plugin runs there in
//     that runtime and the guest's driver shows them;
//   - a pod that ends runs its command on the guest's simulated programs, with the files of
//     its config maps and its GPUs, and gets the resulting exit code and termination message.
//
// A cluster does not outlive the lab: there is no fsync, and the data is deleted with the
// process.
package plane
