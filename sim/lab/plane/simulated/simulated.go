// Package simulated makes control planes for clusters of package plane in this process: those of
// package kubesim, which plays the API server, the controllers and the scheduler.
package simulated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/lab/internal/pki"
	"github.com/cps-gpu/homelab/sim/lab/kueue"
	"github.com/cps-gpu/homelab/sim/lab/plane"
)

// Starter returns what starts control planes that say that they are of a version of Kubernetes.
func Starter(version string) plane.Start {
	return func(ctx context.Context, s plane.Settings) (plane.Control, error) {
		c := &control{to: &outside{}}
		var err error
		c.cluster, err = kubesim.NewPlane(ctx, guest.PlaneConfig{
			Version: version, ServiceCIDR: s.Services, PodCIDR: s.Pods, SecondCIDRs: s.Second, DNSDomain: s.Domain, PlainSecrets: s.PlainSecrets, Saved: s.Saved,
		}, kubesim.Backends{Kubelet: c.to.kubelet, Dial: c.to.dial, Admit: kueue.Admit})
		if err != nil {
			return nil, err
		}
		if err := c.begin(ctx, s.Saved != nil); err != nil {
			c.Stop()
			return nil, err
		}
		return c, nil
	}
}

// control is a [plane.Control].
type control struct {
	cluster *kubesim.Cluster
	to      *outside
	config  *rest.Config
	signer  *pki.Pair
}

func (c *control) begin(ctx context.Context, restored bool) error {
	address, err := c.cluster.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	if c.config, err = clientcmd.RESTConfigFromKubeConfig(c.cluster.Kubeconfig("https://" + address.String())); err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	c.config.UserAgent, c.config.QPS, c.config.Burst = "homelab-lab", 200, 400
	c.signer = pki.New(c.cluster.Authority())
	if !restored {
		return nil
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	return plane.SilenceNodes(ctx, client)
}

// Config connects as administrator.
func (c *control) Config() *rest.Config { return c.config }

// Kubeconfig is the administrator's, for a server's URL.
func (c *control) Kubeconfig(server string) ([]byte, error) { return c.cluster.Kubeconfig(server), nil }

// PEM is the authority's certificate.
func (c *control) PEM() []byte { return c.signer.PEM() }

// Issue makes a certificate and its key, for both sides of a connection.
func (c *control) Issue(names ...string) (cert, key []byte, err error) {
	name := "simulated"
	if len(names) > 0 && names[0] != "" {
		name = names[0]
	}
	return pki.Make(pki.Leaf(name, names...), nil, c.signer)
}

// Serve adds sans to the API server's certificate.
func (c *control) Serve(_ context.Context, sans []string) error { return c.cluster.ServeAs(sans...) }

// Reach lets the API server reach kubelets, pods and Services.
func (c *control) Reach(to plane.Outside) { c.to.Store(&to) }

// Save returns all objects, and the authority.
func (c *control) Save(ctx context.Context) (*guest.PlaneSaved, error) { return c.cluster.Save(ctx) }

// Watch returns when ctx ends: nothing ends by itself.
func (c *control) Watch(ctx context.Context) { <-ctx.Done() }

// Processes are none.
func (c *control) Processes() []int { return nil }

// Stop ends it.
func (c *control) Stop() { _ = c.cluster.Close() }

// outside is who answers the API server, once somebody does.
type outside struct{ atomic.Pointer[plane.Outside] }

func (o *outside) kubelet(node string) http.Handler {
	if to := o.Load(); to != nil {
		return to.Kubelet(node)
	}
	return nil
}

func (o *outside) dial(_ context.Context, address string) (net.Conn, error) {
	to := o.Load()
	if to == nil {
		return nil, errors.New("no route to host")
	}
	serve, err := to.Way(address)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	go serve(far)
	return near, nil
}
