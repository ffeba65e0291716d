// Package k3s is K3s on a machine: its configuration, servers that form a cluster and agents
// that join one, etcd's members, manifests, kube-vip's address, and containers.
package k3s
