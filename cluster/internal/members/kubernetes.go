package members

import (
	"net/http"
	"sync/atomic"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// Kubernetes is the cluster's API, as this run reaches it, and what it says about the nodes. It is safe
// for concurrent use.
type Kubernetes struct {
	Config
	api    *api // of all runs
	memory atomic.Pointer[memory]
}

// memory is what a Plan or Run knows of the cluster. Its zero value is empty.
type memory struct {
	work      workObservations
	unhealthy unhealthy
	wrote     atomic.Bool // the kubeconfig, and the host keys that were known then
}

// Reset forgets what an earlier Plan or Run has seen: everything may have changed since.
func (ks *Kubernetes) Reset() {
	ks.memory.Store(&memory{})
	ks.Nodes.Reset()
}

// Graph returns an empty graph whose steps have the time limits of the file, and forget what
// they have seen when another Plan or Run of it begins.
func (ks *Kubernetes) Graph() *converge.Graph {
	return &converge.Graph{Patience: ks.Spec.Patience, TimeoutHint: run.TimeoutHint(ks.Spec), OnStart: ks.Reset}
}

// Config is what Members need.
type Config struct {
	Spec  *spec.Spec
	Nodes *nodes.Nodes
	// Distribution is the Kubernetes on machines that Nodes reach.
	Distribution distribution.Distribution
	VMs          bool            // some are VMs that this cluster made, which up can give a login
	Hosts        *ssh.KnownHosts // written with the kubeconfig
	Kubeconfig   string          // where the administrator's kubeconfig is stored, for kubectl
	ProxyURL     string          // goes into the kubeconfig; may be empty
	// KubeWrap wraps the transport of Kubernetes requests; may be nil.
	KubeWrap func(http.RoundTripper) http.RoundTripper
}
