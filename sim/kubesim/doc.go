// Package kubesim is a Kubernetes API for tests: a fake for in-process runs, not a reference.
// Other tests use a real kube-apiserver.
//
// A [Sim] makes control planes for simulated guests; each is a [Cluster], which
// serves the API over TLS on in-memory connections and opens no sockets, so that a
// whole cluster's life fits into a testing/synctest bubble.
//
// Real: the wire format, discovery, watches, label and field selectors, server-side apply
// with field ownership and removal (by the API server's own library and schemas,
// so unknown fields are refused), dry runs, conflicts, immutable fields, graceful
// deletion, eviction under disruption budgets, client certificates.
//
// Its controllers do what kube-controller-manager and kube-scheduler do: Deployments by
// ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs; claims and volumes; taints of nodes and
// eviction from them; endpoints; garbage with finalizers; taints, affinity, counted resources such
// as nvidia.com/gpu. The API fills in its defaults and what admission adds, and serves tables,
// scales, bindings and tokens. A test of the lab makes the same requests of it and of Kubernetes
// v1.36.
//
// [NewPlane] is that alone, which clients of client-go and kubectl work with: its nodes, and all
// that runs on them, are theirs. It can listen on a port.
//
// [New] plays the nodes, too: a pod that should end is run by its guest through guest.Node.Run;
// all others just run, of several containers the first. A device plugin's pod makes its node's GPUs
// allocatable. What a claim asks a provisioner for is made while a pod of it is ready, see
// [Provisions]; certificates are signed while cert-manager's is. Programs of charts' hooks that
// guests do not have end well.
//
// Missing: RBAC (every client certificate is an administrator) and tokens, validation beyond types,
// names and selectors, calls of webhooks and policies (but see [Backends]), quotas, preemption,
// topology spread, the schemas of custom kinds, OpenAPI schemas, answers in protobuf,
// events.k8s.io, ControllerRevisions (a StatefulSet's partition gets the new template too), Indexed
// Jobs, the finalizer of Jobs' pods.
package kubesim
