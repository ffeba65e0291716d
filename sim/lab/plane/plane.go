package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/operators"
)

// plane is one cluster: a control plane, and a kubelet for each node that joined.
type plane struct {
	control Control
	client  *kubernetes.Clientset
	pods    netip.Prefix
	egress  *egress
	log     *slog.Logger
	proxmox func() *http.Client
	outside func(ctx context.Context, address string) (net.Conn, error)
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	kubelet *kubelet
	cluster *operators.Cluster // the view of the programs in pods
	ctx     context.Context    // the cluster's context, under which its controllers run
	cancel  context.CancelFunc
	running sync.WaitGroup
	closed  func() // called once when the cluster has ended
	once    sync.Once
}

// Join registers a node and keeps it Ready from now on.
func (p *plane) Join(ctx context.Context, n guest.Node) error {
	if err := p.register(ctx, n); err != nil {
		return err
	}
	p.kubelet.start(n)
	if n.Disable != nil {
		p.cluster.Disable(n.Disable)
	}
	return nil
}

// Leave stops a node's kubelet. The Node remains, NotReady, until somebody deletes it.
func (p *plane) Leave(name string) {
	if !p.kubelet.stop(name) {
		return
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := deregister(ctx, p.client, name); err != nil && p.ctx.Err() == nil {
		p.log.Info("the Node of a leaving node could not be marked", "node", name, "why", err)
	}
}

// Dial connects to the API server's TLS port.
func (p *plane) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.address())
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	return conn, nil
}

// Kubeconfig returns the administrator's, for a server URL like https://10.0.0.100:6443.
func (p *plane) Kubeconfig(server string) []byte {
	out, err := p.control.Kubeconfig(server)
	if err != nil { // of constants and our own certificates
		p.log.Error("kubeconfig", "why", err)
	}
	return out
}

// address is where the API server listens, host:port.
func (p *plane) address() string { return strings.TrimPrefix(p.control.Config().Host, "https://") }

// SetIssuer implements guest.PlaneIssuerSetter. A simulated API server knows no tokens.
func (p *plane) SetIssuer(ctx context.Context, args []guest.PlaneArgument) error {
	if c, ok := p.control.(guest.PlaneIssuerSetter); ok {
		return c.SetIssuer(ctx, args)
	}
	return nil
}

// Save returns the state of the control plane.
func (p *plane) Save(ctx context.Context) (*guest.PlaneSaved, error) { return p.control.Save(ctx) }

// Close ends the cluster and deletes it.
func (p *plane) Close() error {
	p.once.Do(func() {
		p.cancel()
		p.control.Stop()
		p.egress.close()
		p.running.Wait()
		p.closed()
	})
	return nil
}

// errClosed is Form's error after Close.
var errClosed = errors.New("the lab is being stopped")
