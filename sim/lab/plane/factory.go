package plane

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/gpuoperator"
	"github.com/cps-gpu/homelab/sim/lab/kueue"
	"github.com/cps-gpu/homelab/sim/lab/operators"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// Options configure clusters.
type Options struct {
	Start Start        // makes their control planes
	Log   *slog.Logger // the lab's own log; nil discards it
	// Proxmox is the way to the hosts of the nodes' machines; nil: there are none.
	Proxmox func() *http.Client
	// Outside is traffic.Traffic's.
	Outside func(ctx context.Context, address string) (net.Conn, error)
}

// Factory makes clusters. It is a guest.Kubernetes.
//
// One control plane is kept ready in advance ([Factory.Prewarm]), so that a guest that starts
// K3s waits no longer than with a real one.
type Factory struct {
	opts  Options
	ctx   context.Context
	close context.CancelFunc

	mu     sync.Mutex
	spare  *spare
	planes map[*plane]bool
	warm   sync.WaitGroup

	// volumes are what pods have written, by their cluster's authority: no snapshot of etcd has
	// it, and no restore touches it.
	volumes map[string]*traffic.Volumes
}

// spare is an unused control plane with K3s' networks.
type spare struct {
	control Control
	done    chan struct{} // closed when it has started
	err     error
}

// stop waits for the end of its start, and stops it.
func (s *spare) stop() {
	<-s.done
	if s.err == nil {
		s.control.Stop()
	}
}

// New makes a factory; its planes run until Close, or until ctx ends.
func New(ctx context.Context, opts Options) *Factory {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Factory{opts: opts, ctx: ctx, close: cancel, planes: map[*plane]bool{}, volumes: map[string]*traffic.Volumes{}}
}

// Prewarm starts a control plane with K3s' default networks, and returns at once.
// The next [Factory.Form] takes it.
func (f *Factory) Prewarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spare != nil || f.ctx.Err() != nil {
		return
	}
	s := &spare{done: make(chan struct{})}
	f.spare = s
	f.warm.Go(func() {
		defer close(s.done)
		s.control, s.err = f.opts.Start(f.ctx, Settings{Networks: Defaults()})
		if s.err != nil && f.ctx.Err() == nil {
			f.opts.Log.Error("no control plane is ready; the first server will start one", "why", s.err)
		}
	})
}

// Ready waits for the control plane that [Factory.Prewarm] started.
func (f *Factory) Ready(ctx context.Context) error {
	f.mu.Lock()
	s := f.spare
	f.mu.Unlock()
	if s == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for the control plane: %w", ctx.Err())
	case <-s.done:
		return s.err
	}
}

// Form makes a cluster whose API server's certificate is valid for cfg.TLSSANs.
func (f *Factory) Form(ctx context.Context, cfg guest.PlaneConfig) (guest.Plane, error) {
	want := Settings{Networks: Defaults(), Saved: cfg.Saved}
	if cfg.ServiceCIDR.IsValid() {
		want.Services = cfg.ServiceCIDR
	}
	if cfg.PodCIDR.IsValid() {
		want.Pods = cfg.PodCIDR
	}
	want.Second = cfg.SecondCIDRs
	want.Domain = cmp.Or(cfg.DNSDomain, want.Domain)
	want.PlainSecrets = cfg.PlainSecrets
	control, err := f.take(ctx, want)
	if err != nil {
		return nil, err
	}
	p, err := f.assemble(ctx, control, want.Pods, cfg)
	if err != nil {
		control.Stop()
		return nil, err
	}
	return p, nil
}

// take returns the spare if it fits, or a new control plane.
func (f *Factory) take(ctx context.Context, want Settings) (Control, error) {
	if want.Saved != nil {
		return f.opts.Start(ctx, want)
	}
	f.mu.Lock()
	s := f.spare
	f.spare = nil
	f.mu.Unlock()
	if s != nil {
		select {
		case <-s.done:
		case <-ctx.Done():
			f.warm.Go(s.stop)
			return nil, fmt.Errorf("waiting for the control plane: %w", ctx.Err())
		}
		if s.err == nil && want.Networks == Defaults() {
			return s.control, nil
		}
		s.stop()
	}
	if f.ctx.Err() != nil {
		return nil, errClosed
	}
	return f.opts.Start(ctx, want)
}

func (f *Factory) assemble(ctx context.Context, control Control, pods netip.Prefix, cfg guest.PlaneConfig) (*plane, error) {
	if err := control.Serve(ctx, cfg.TLSSANs); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(control.Config())
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	dyn, err := dynamic.NewForConfig(control.Config())
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	p := &plane{
		control: control, client: client, pods: pods, log: f.opts.Log, proxmox: f.opts.Proxmox, outside: f.opts.Outside, dynamic: dyn,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
	}
	p.ctx, p.cancel = context.WithCancel(f.ctx)
	p.closed = func() { f.forget(p) }
	f.mu.Lock()
	f.planes[p] = true
	volumes, known := f.volumes[string(control.PEM())]
	if !known {
		volumes = traffic.NewVolumes()
		f.volumes[string(control.PEM())] = volumes
	}
	f.mu.Unlock()
	p.cluster = p.programs(cfg.Disable, volumes)
	p.kubelet = newKubelet(p)
	p.cluster.Exec = p.kubelet.exec
	p.egress = newEgress(control, p.kubelet.at, p.kubelet.api(), p.cluster.Traffic)
	control.Reach(Outside{Way: p.egress.to, Kubelet: p.egress.kubelet})
	p.running.Go(func() { control.Watch(p.ctx) })
	p.running.Go(func() { p.kubelet.run(p.ctx) })
	p.running.Go(func() { operators.Run(p.ctx, p.cluster) })
	operator := &gpuoperator.Operator{Client: client, Dynamic: dyn, Log: f.opts.Log}
	p.running.Go(func() { operator.Run(p.ctx) })
	queues := &kueue.Manager{Client: client, Dynamic: dyn, Log: f.opts.Log}
	p.running.Go(func() { queues.Run(p.ctx) })
	if err := p.Apply(ctx, packaged(cfg.Disable)); err != nil {
		return nil, fmt.Errorf("what K3s ships: %w", err)
	}
	return p, nil
}

// Reach connects to an address that a cluster's load balancer assigned to a Service; false if
// no cluster has it.
func (f *Factory) Reach(address string) (net.Conn, bool) {
	f.mu.Lock()
	planes := slices.Collect(maps.Keys(f.planes))
	f.mu.Unlock()
	for _, p := range planes {
		if !p.cluster.Traffic.Balances(address) {
			continue
		}
		if conn, err := p.cluster.Traffic.Dial(address); err == nil {
			return conn, true
		}
	}
	return nil, false
}

// forget removes a closed plane and prepares the next control plane.
func (f *Factory) forget(p *plane) {
	f.mu.Lock()
	delete(f.planes, p)
	f.mu.Unlock()
	f.Prewarm()
}

// Close ends every cluster and waits until no component is left.
func (f *Factory) Close() error {
	f.close()
	f.mu.Lock()
	s := f.spare
	f.spare = nil
	planes := make([]*plane, 0, len(f.planes))
	for p := range f.planes {
		planes = append(planes, p)
	}
	f.mu.Unlock()
	for _, p := range planes {
		_ = p.Close()
	}
	if s != nil {
		s.stop()
	}
	f.warm.Wait()
	return nil
}

// Processes returns the ids of all running components.
func (f *Factory) Processes() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pids []int
	for p := range f.planes {
		pids = append(pids, p.control.Processes()...)
	}
	if s := f.spare; s != nil {
		select {
		case <-s.done:
			if s.err == nil {
				pids = append(pids, s.control.Processes()...)
			}
		default:
		}
	}
	return pids
}
