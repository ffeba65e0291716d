// Package kubeadm sets up Kubernetes with kubeadm on any machine of Debian or Ubuntu that runs commands: the packages
// of pkgs.k8s.io with containerd or CRI-O, a first server, and agents that join it. It knows nothing of virtual machines, and
// keeps its own files in /etc/kubernetes/homelab.
//
// Each call can be repeated after it was cut short at any point. No secret is in an argument of a command, an event or
// an error.
//
// Facts are from Kubernetes' own source, v1.36.3, cmd/kubeadm; a comment names the file. Those of CRI-O
// are from its v1.34.0, and from cri-o/packaging.
package kubeadm
