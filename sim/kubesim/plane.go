package kubesim

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Backends is how a control plane alone reaches what its clients play.
type Backends struct {
	// Kubelet is the API of a node's kubelet, which answers logs, exec, attach and port-forward
	// at the paths of a real one; nil: nobody answers.
	Kubelet func(node string) http.Handler

	// Admit may change a new object, or refuse it, instead of webhooks and admission policies;
	// nil: everything is as it was asked for. get reads an object by its resource and group, such as
	// "localqueues.kueue.x-k8s.io"; nil: there is none. It must not call the API, which waits for it.
	Admit func(obj map[string]any, get func(resource, namespace, name string) map[string]any) error

	// AdmitChange may change an object that replaces another, status apart, or refuse it; obj is nil where old is
	// to be deleted. Like Admit, it must not call the API.
	AdmitChange func(old, obj map[string]any) error

	// Dial connects to a port of a pod, for requests by way of the API's proxy; nil: no route.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// NewPlane makes a control plane alone: the API with the work of kube-controller-manager and
// kube-scheduler. Its clients are the kubelets, provisioners and operators; it neither starts a
// pod nor ends one. It outlives ctx, whose values it keeps: call Close.
func NewPlane(ctx context.Context, cfg guest.PlaneConfig, outside Backends) (*Cluster, error) {
	return form(ctx, cfg, 1, &outside)
}

// Listen also serves the API on a real port, such as that of 127.0.0.1:0, and returns its address.
func (c *Cluster) Listen(ctx context.Context, address string) (net.Addr, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("kubesim: %w", err)
	}
	c.ended.Add(1)
	go func() { defer c.ended.Done(); _ = c.srv.ServeTLS(l, "", "") }()
	return l.Addr(), nil
}

// ServeAs makes the API's certificate valid for more names and addresses. Connections that are
// open stay.
func (c *Cluster) ServeAs(sans ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.cfg.TLSSANs)
	for _, san := range sans {
		if !slices.Contains(all, san) {
			all = append(all, san)
		}
	}
	if err := c.auth.Serve(c.cfg.ServiceCIDR, all); err != nil {
		return err
	}
	c.cfg.TLSSANs = all
	return nil
}

// Authority is the cluster's certificate authority with its key: what it signs, the API trusts.
func (c *Cluster) Authority() (*x509.Certificate, crypto.Signer) { return c.auth.Cert, c.auth.Key }
