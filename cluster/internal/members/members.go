package members

import (
	"net/http"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/remote/ssh"
)

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

// Members are the machines of a cluster as members of its K3s. They are safe for concurrent
// use.
type Members struct {
	Config
	api   api
	saved saved

	// restarting is held by the one node that goes down and comes up again.
	restarting chan struct{}
}

// New makes Members.
func New(c Config) *Members {
	return &Members{Config: c, restarting: make(chan struct{}, 1)}
}
