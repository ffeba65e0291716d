// Package spec describes a cluster as Go values: its machines, Kubernetes, GPUs and platform,
// with every default filled in. Package clusterfile reads the values from a file, package
// cluster creates the cluster.
package spec
