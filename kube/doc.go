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
// [Client.Nodes] says of every node whether it is ready and, if it is not, why.
// [Marks] are the labels and taints that a node should have: what was set by
// [Client.Mark] and is no longer asked for is removed, and nothing else ever is,
// because a node remembers in an annotation what is ours. [Client.Drain] empties a
// node through the eviction API, saying which disruption budget it waits for.
//
// # Waiting
//
// Nothing here waits for readiness. [Client.Ready], [Client.JobState] and the rest
// look once and answer in words that a progress line can show, for example
// "daemonset kube-system/plugin: 3 of 4 pods are ready". How often to look, and for
// how long, is the caller's. That leaves out watches, caches and informers, of
// which a tool that ends has no need.
//
// # Errors
//
// Failed calls are an [*Error]: what was being done, the server's words, and what
// to do, with a kind to compare with errors.Is ([ErrNotFound], [ErrUnreachable]…).
// A kind that the API server does not serve yet is a [*NoKindError].
//
// The client limits its rate by nothing but the server's own wishes, keeps its
// connections to itself, and never prints.
package kube
