package parts

import (
	"context"
	"net"
	"sync"

	"github.com/cps-gpu/homelab/cluster/internal/workload"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/helm"
)

// Config is what the steps of the platform's parts need.
type Config struct {
	Spec   *spec.Spec
	Make   func() ([]addon.Recipe, error) // the parts that the file asks for, in order
	Charts helm.Source                    // the file's own settings are merged into it
	Kube   func(context.Context) (*kube.Client, error)
	// Work is the running work, for the cost of a step; nil if there is no cluster yet.
	Work    func(context.Context) (*workload.Work, error)
	GitDial func(ctx context.Context, network, addr string) (net.Conn, error) // reaches fleet.repo; nil dials directly
	// CheckDNS says why the credentials of the file's zones are not taken; nil asks nobody.
	CheckDNS func(context.Context, *spec.DNS) error
	// CheckProvider says why programs could not ask the provider of the login; nil asks nobody.
	CheckProvider func(context.Context, *spec.Platform) error
}

// Steps makes the steps. It is safe for concurrent use.
type Steps struct {
	Config
	pushed repoState

	mu       sync.Mutex
	client   *helm.Client // the client for clientOf
	clientOf *kube.Client
}

// New makes Steps.
func New(c Config) *Steps {
	c.Charts = c.Charts.WithMemoryCache()
	return &Steps{Config: c}
}

// ForRun returns the steps of another run, which reaches Kubernetes by kube.
func (s *Steps) ForRun(kube func(context.Context) (*kube.Client, error), work func(context.Context) (*workload.Work, error)) *Steps {
	c := s.Config
	c.Kube, c.Work = kube, work
	return &Steps{Config: c}
}
