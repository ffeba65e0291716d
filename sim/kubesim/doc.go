// Package kubesim is a Kubernetes API for tests: a fake for in-process runs, not a reference.
// Other tests use a real kube-apiserver.
//
// A [Sim] makes control planes for simulated guests; each is a [Cluster], which
// serves the API over TLS on in-memory connections and opens no sockets, so that a
// whole cluster's life fits into a testing/synctest bubble.
//
// Real: the wire format, discovery, label and field selectors, server-side apply
// with field ownership and removal (by the API server's own library and schemas,
// so unknown fields are refused), dry runs, conflicts, immutable fields, graceful
// deletion, eviction under disruption budgets, client certificates.
//
// Played: one loop stands for the DaemonSet, Job, Deployment and StatefulSet
// controllers, the garbage collector, the scheduler (taints, node selectors and
// affinity, counted resources such as nvidia.com/gpu) and the kubelets. A pod that
// should end is run by its guest through guest.Node.Run; all others just run. A claim
// is bound while a pod of its class' provisioner is ready, see [Provisions];
// certificates are signed while cert-manager's is. Programs of charts' hooks that
// guests do not have end well. A
// device plugin's pod makes its node's GPUs allocatable.
//
// Missing: watches, API defaults, admission, RBAC (every client certificate is an
// administrator), validation beyond types, more than the first container of a pod.
package kubesim
