// Package kubeadm is Kubernetes on a machine as kubeadm sets it up: kubeadm itself, its bootstrap tokens, the kubelet's
// service, and kubectl's question whether a server is ready. There is one server; etcd and the control plane, whose
// containers are not played, run while its kubelet does.
//
// Names of checks, files and messages are those of k8s.io/kubernetes v1.36.3, cmd/kubeadm.
package kubeadm
