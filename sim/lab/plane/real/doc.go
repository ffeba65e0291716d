// Package real starts real control planes of Kubernetes, for clusters of package plane: etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler as child processes on loopback, each
// control plane with a CA of its own.
//
// A control plane does not outlive the lab: there is no fsync, and the data is deleted with the
// process.
package real
