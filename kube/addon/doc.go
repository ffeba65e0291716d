// Package addon has the services that such a cluster needs, each as a value: storage,
// certificates, ingress, load-balancer addresses, Rancher, monitoring, backup.
//
// Each is a [Part], in a file of its own: a section of cluster.yaml, with what follows from it. A
// part takes a [Site], the few facts that it needs of the cluster, and returns a [Recipe]: a chart at
// its pinned version, the values that differ from the chart's defaults, the Secrets that are
// created first, and the objects around it. Making a part touches no cluster; a caller applies
// pieces, or writes them to a Git repository.
//
// What all parts have in common:
//
//   - Everything tolerates the taints of the cluster's nodes ([Site.Taints]). Charts expect
//     tolerations in several places, some in a format of their own; a DaemonSet without one
//     silently leaves a node without storage or metrics.
//   - Storage classes are ours, not the charts': their parameters are immutable, so an upgrade
//     of a release that changed one would fail. One class is the default. K3s then has to run
//     with disable: [local-storage], because it makes its own class, local-path, the default
//     at every start of a server.
//   - Values have no secrets. They name a Secret of the part ([chart.Part.Secrets]).
//   - The number of replicas follows the number of nodes.
//   - Every key that is set exists in the chart. Charts silently accept typing errors; the
//     tests of this package do not.
//
// A storage class is proven when a volume of it was written and read: [Probe] does that, on
// two nodes if the class allows it, and cleans up.
//
// This package is not a collection of the best values for every site. The file's charts.values
// are merged over ours, for everything without a setting of its own.
package addon
