// Package kube is a small Kubernetes client: it applies objects, reports when they are
// ready, and manages nodes.
//
// # Applying
//
// [Client.Apply] is server-side apply under one field manager. It first asks the
// API server for the result of each apply and writes only objects that would
// change, so a second run writes nothing; [Client.Diff] only asks. Fields that are no
// longer in an object are removed; fields that others set stay. Objects are typed (k8s.io/api), or read from YAML by
// [Decode].
//
// # Nodes
//
// [Client.Nodes] says of every node whether it is ready and, if it is not, why. [Marks] are
// the labels and taints that a node should have: [Client.Mark] removes those that it set
// earlier and that are no longer wanted, and nothing else. An annotation on the node lists
// which are ours. [Client.Drain] empties a node through the eviction API, saying which
// disruption budget it waits for.
//
// # Waiting
//
// Nothing here waits for readiness. [Client.Ready], [Client.JobState] and the others read once
// and answer with a text for a progress line, for example "daemonset kube-system/plugin: 3 of
// 4 pods are ready". The caller decides how often and how long to ask. A tool that ends needs
// no watches, caches or informers.
//
// # Errors
//
// A failed call returns an [*Error]: the call, the server's message, and what to do, with a
// kind to compare with errors.Is ([ErrNotFound], [ErrUnreachable]…). A kind that the API
// server does not serve yet is a [*NoKindError].
//
// The client has no rate limit except the server's own requests to wait, does not share its
// connections, and never prints.
package kube
