// Package component runs one part of a Kubernetes control plane as this process.
//
// The parts are etcd, kube-apiserver, kube-controller-manager and kube-scheduler, each
// compiled in from its Go module with its own command line. They cannot run in one process,
// because each has global feature gates, metrics registries and flag sets. So the lab's
// program contains all of them, and starts itself again for each: see package plane. It also
// contains kubectl, for machines without one.
package component
