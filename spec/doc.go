// Package spec says what a cluster should be: its machines, Kubernetes, GPUs and
// platform, with every default filled in. It holds values and what follows from them
// alone; reading a file is package clusterfile's, bringing the cluster up package cluster's.
package spec
