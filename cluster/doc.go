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
// changes, every chart is fetched and its schema checked against our values.
//
// One step renders the parts that the file sends through Fleet into a Git repository, and
// further steps wait for each; Secrets never go there. The cluster records, in a
// ConfigMap for each part, which objects are ours: a part that the file no longer names
// is removed, and nothing else is. A provisioner whose volumes are in use
// stays, and the message names their claims.
//
// # Rooms
//
// [Cluster.Up] adds steps of several packages under cluster/internal, each of which gets the few
// things that it needs: firstboot (seeds), templates, nodes (the machines seen from inside), members
// (the machines as K3s has them, and the way to the API) and parts (the platform). run is
// what they share during one run.
package cluster
