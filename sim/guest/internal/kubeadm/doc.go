// Package kubeadm is Kubernetes on a machine as kubeadm sets it up: kubeadm itself, its bootstrap tokens, the kubelet's
// service, and kubectl's question whether a server is ready. etcd and the control plane of a server, whose containers are not played, run
// while its kubelet does; kube-vip's static pod gives one of the servers the address of the API.
//
// Names of checks, files and messages are those of k8s.io/kubernetes v1.36.3, cmd/kubeadm.
package kubeadm
