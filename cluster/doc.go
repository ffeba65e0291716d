// Package cluster creates, changes and destroys a whole cluster: it has the steps and
// their order. The wanted state is a [spec.Spec].
//
// # The platform
//
// What runs on Kubernetes for the people who use it (storage, addresses, certificates,
// Rancher or Fleet, monitoring, backup, the hub) is made of parts, see chart.Part.
// [Cluster.Up] turns each into a few steps: its Secrets, its release, the objects that
// the release has brought the kinds of, and for storage a volume that is written and
// read. A part begins as soon as those that it needs are there. Before anything
// changes at all, every chart is looked for and held against our values for it.
//
// Parts that the file sends through Fleet are rendered into a Git repository by one
// step, and each is waited for; Secrets never go there. The cluster remembers, in a
// ConfigMap for each part, what we have put there: a part that the file no longer names
// is taken away again, and nothing else is. A provisioner whose volumes are in use
// stays, and says whose they are.
package cluster
