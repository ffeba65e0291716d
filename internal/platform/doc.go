// Package platform says which parts a cluster file asks for beside Kubernetes and its
// GPUs (storage, certificates, ingress, Rancher, monitoring, backup, the hub), each with
// its chart, its values and what it needs first. It changes nothing.
package platform
