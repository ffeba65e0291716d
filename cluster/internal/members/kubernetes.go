package members

import (
	"net/http"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// Kubernetes is the cluster's API, as this run reaches it, and what it says about the nodes. It is safe
// for concurrent use.
type Kubernetes struct {
	Config
	api api
}

// Config is what Members need.
type Config struct {
	Spec       *spec.Spec
	Nodes      *nodes.Nodes
	VMs        bool            // some are VMs that this cluster made, which up can give a login
	Hosts      *ssh.KnownHosts // written with the kubeconfig
	Kubeconfig string          // where the administrator's kubeconfig is stored, for kubectl
	ProxyURL   string          // goes into the kubeconfig; may be empty
	// KubeWrap wraps the transport of Kubernetes requests; may be nil.
	KubeWrap func(http.RoundTripper) http.RoundTripper
}
