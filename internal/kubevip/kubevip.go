// Package kubevip pins kube-vip, which gives the address of the API to one of the servers that run, however their
// Kubernetes was set up.
package kubevip

// Image and Version are what runs unless another one is asked for.
const (
	Image   = "ghcr.io/kube-vip/kube-vip"
	Version = "v1.2.4"
)
