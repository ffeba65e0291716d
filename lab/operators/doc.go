// Package operators plays the programs that run in a lab cluster's pods.
//
// A pod in the lab is a line in the API: KWOK says that it is Ready, and nothing
// executes. Of most programs nobody notices. Some have an effect that a platform
// cannot do without: a provisioner makes volumes, a certificate manager makes
// Secrets, a load balancer gives addresses. This package has that effect in their
// place, and only while they run: an instance of a program begins when the first
// pod with its image is Ready and ends with the last, as the leader of a replicated
// controller does. It is recognized by image and arguments, and reads the same
// ConfigMaps and objects as the real one, so what is deployed wrongly does nothing
// here either, and says so in the words of the real one.
//
// What it is not: complete. Each program does what the platform of package cluster
// and its checks look at. docs/lab.md has the list.
package operators
