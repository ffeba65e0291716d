// Package operators simulates the programs that run in a lab cluster's pods.
//
// A pod in the lab exists only in the API: its kubelet sets it to Ready, and nothing runs. For most
// programs that does not matter. Some have an effect that a platform needs: a provisioner
// creates volumes, a certificate manager creates Secrets, a load balancer assigns addresses.
// This package has that effect instead, and only while they run: an instance of a program
// starts when the first pod with its image is Ready and ends with the last, like the leader of
// a replicated controller. It is recognized by image and arguments, and reads the same
// ConfigMaps and objects as the real one. A wrong deployment has no effect here either, and
// gives the real program's messages.
//
// It is not complete. Each program does what the platform of package cluster and its checks
// need. docs/lab.md has the list.
package operators
