// Package component runs one part of a Kubernetes control plane, or of what the
// lab puts instead of kubelets, as this process.
//
// The parts are etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
// KWOK, each compiled in from its Go module with its own command line. They do not
// fit into one process: feature gates, metrics registries and flag sets are global
// in each. So the lab's program is all of them, and starts itself again once for
// each: see package plane. kubectl is there as well, for machines that have none.
package component
