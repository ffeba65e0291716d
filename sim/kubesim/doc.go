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
// Played by [New]: one loop stands for the DaemonSet, Job, Deployment and StatefulSet
// controllers, the garbage collector, the scheduler (taints, node selectors and
// affinity, counted resources such as nvidia.com/gpu) and the kubelets. A pod that
// should end is run by its guest through guest.Node.Run; all others just run. A claim
// is bound while a pod of its class' provisioner is ready, see [Provisions];
// certificates are signed while cert-manager's is. Programs of charts' hooks that
// guests do not have end well. A
// device plugin's pod makes its node's GPUs allocatable.
//
// [NewPlane] is a control plane alone, which clients of client-go and kubectl work with:
// its nodes, and all that runs on them, are theirs. It fills in the API's defaults and what
// admission adds to pods, Services, claims and Jobs; serves tables, scales, binds, finalizes;
// rolls Deployments out by ReplicaSets; binds claims to the volumes that provisioners make; taints
// nodes and evicts from them; collects garbage with finalizers. It can listen on a port. A test of
// the lab makes the same requests of it and of Kubernetes v1.36.
//
// Missing: RBAC (every client certificate is an administrator) and tokens, validation beyond types,
// names and selectors, calls of webhooks and policies (but see [Outside]), quotas, preemption,
// topology spread, the schemas of custom kinds, OpenAPI schemas, answers in protobuf,
// events.k8s.io, ControllerRevisions (a StatefulSet's partition gets the new template too), Indexed
// Jobs, the finalizer of Jobs' pods. With [New] also: API defaults, admission, finalizers, more than
// the first container of a pod.
package kubesim
