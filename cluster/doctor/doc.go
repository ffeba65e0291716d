// Package doctor finds out what is wrong with a cluster, from symptom to cause.
//
// [Examine] looks at every place in which a failure shows: Proxmox, the machines from inside
// (disks, memory, units, the kernel's log), K3s with its journal and certificates, NVIDIA's driver,
// the objects in Kubernetes, and what Fleet has made of Git. It changes nothing. All of it is asked
// at once, each machine in two steps.
//
// The answer is a [Report]: findings, each with what was seen and what to do. A failure of a
// machine also shows above it: its node is not ready, its pods wait. Such findings name the one
// they follow from, and a reader begins with those that follow from nothing.
//
// The rules are pure functions over [Evidence], which can also be made by hand or read from a
// file. [Failures] lists what they know.
package doctor
