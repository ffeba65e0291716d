// Package conformance compares a running cluster with the CNCF's requirements for AI on Kubernetes
// (cncf/k8s-ai-conformance): one finding for each requirement of the cluster's Kubernetes, with what
// was seen.
//
// [Check] reads objects and machines, and changes nothing. [CheckIsolation] starts pods on nodes with
// GPUs, in a namespace of its own that it removes, because no object shows what a container sees.
//
// A finding is evidence, and no certificate: the programme certifies products, on public
// documents that their vendors submit.
package conformance
