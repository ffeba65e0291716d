// Package config turns a cluster of package spec into the configuration of its Talos machines.
//
// Talos' own package generate writes the documents, and its own decoder reads them before anything leaves
// this package: what a machine would refuse is refused here.
//
// A machine gets its addresses from its seed (package seed), not from here, because it has to have them
// before anybody can send it a configuration.
//
// Where Talos' defaults are not those of K3s, on which the parts of a platform build, K3s' are set:
// servers run pods unless the file taints them; no namespace is held to the Pod Security Standards; servers are
// not left out by load balancers; and no machine reports to the discovery service of Talos' makers, which is
// on by default (KubePrism then knows the API at its own address and at the cluster's, which is enough).
package config
