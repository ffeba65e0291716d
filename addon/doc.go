// Package addon holds the services that every such cluster wants, each as a value:
// storage, certificates, ingress, load-balancer addresses, Rancher, monitoring, backup.
//
// A function per service takes a few settings and returns a [chart.Part]: a chart at
// its pinned version, the values that differ from the chart's own, the Secrets that
// are made beforehand, and the objects around it. Nothing here touches a cluster;
// a caller applies parts, or writes them into a Git repository.
//
// What all parts have in common:
//
//   - Everything tolerates the taints that the cluster's nodes carry ([Common.Taints]).
//     A chart wants them in several places, some of them in a format of its own; a
//     DaemonSet that misses one place leaves a node without storage or metrics, and
//     says nothing.
//   - Storage classes are ours, not the charts': their parameters never change after
//     they are made, so an upgrade of a release that changed one would fail. One class
//     is the default. Then K3s must run with disable: [local-storage]: it makes its own
//     class, local-path, the default at every start of a server.
//   - Values hold no secrets. Charts are told the name of a Secret that the part
//     brings along ([chart.Part.Secrets]).
//   - There are as many replicas as the number of nodes gives reason for.
//   - Every key that is set exists in the chart. Charts accept typos in silence; the
//     tests of this package do not.
//
// A storage class is no use until a volume of it was written and read: [Probe] does
// that, on another node where the class allows it, and cleans up behind itself.
//
// What this package is not: a collection of best values for every site. What has no
// setting is reached by [Common.Values], which are merged over ours.
package addon
