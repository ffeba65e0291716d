package members

import (
	"net/http"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/spec"
)

// Config is what is known of the members.
type Config struct {
	Spec       *spec.Spec
	Nodes      *nodes.Nodes
	VMs        bool            // some are VMs of ours, which up can give a login
	Hosts      *ssh.KnownHosts // written with the kubeconfig
	Kubeconfig string          // where the administrator's is kept, for kubectl
	ProxyURL   string          // goes into it; may be empty
	// KubeWrap wraps the transport of Kubernetes requests; may be nil.
	KubeWrap func(http.RoundTripper) http.RoundTripper
}

// Members are the machines of a cluster as its K3s has them. They are safe for concurrent
// use.
type Members struct {
	Config
	api api

	// restarting is held by the one node that is being taken down and up again.
	restarting chan struct{}
}

// New makes Members.
func New(c Config) *Members {
	return &Members{Config: c, restarting: make(chan struct{}, 1)}
}
