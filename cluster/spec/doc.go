// Package spec describes a cluster as Go values: its machines, Kubernetes, GPUs and platform. A
// field's tags say its key in cluster.yaml, its default and its choices. Package clusterfile reads the
// values from a file, or completes those that were written in Go; package cluster creates the cluster.
package spec
