// Package plane says what a control plane of Kubernetes is to the machines that K3s runs
// on. Somebody else brings one.
package plane
