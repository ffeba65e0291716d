package plane

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/cps-gpu/homelab/lab/gpuoperator"
	"github.com/cps-gpu/homelab/lab/kueue"
	"github.com/cps-gpu/homelab/lab/operators"
	"github.com/cps-gpu/homelab/lab/traffic"
	"github.com/cps-gpu/homelab/sim/guest"
)

// Options configure where control planes run.
type Options struct {
	Dir  string       // data and keys of each, in a folder of its own, 0700; deleted with it
	Logs string       // one file per component
	Exe  string       // the program that is all components: see package component
	Log  *slog.Logger // the lab's own log; nil discards it
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
	made   int
	spare  *spare
	planes map[*plane]bool
	warm   sync.WaitGroup

	// volumes are what pods have written, by their cluster's authority: no snapshot of etcd has
	// it, and no restore touches it.
	volumes map[string]*traffic.Volumes
}

// spare is an unused control plane.
type spare struct {
	cp   *controlPlane
	done chan struct{}
	err  error
}

// New makes a factory; its planes run until Close, or until ctx ends.
func New(ctx context.Context, opts Options) *Factory {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Factory{opts: opts, ctx: ctx, close: cancel, planes: map[*plane]bool{}, volumes: map[string]*traffic.Volumes{}}
}

// defaults are K3s' networks.
func defaults() networks {
	return networks{
		services: netip.MustParsePrefix("10.43.0.0/16"),
		pods:     netip.MustParsePrefix("10.42.0.0/16"),
		domain:   "cluster.local",
	}
}

// Prewarm starts a control plane with K3s' default networks, and returns at once.
// The next [Factory.Form] takes it.
func (f *Factory) Prewarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spare != nil || f.ctx.Err() != nil {
		return
	}
	s := &spare{cp: f.blank(defaults()), done: make(chan struct{})}
	f.spare = s
	f.warm.Go(func() {
		defer close(s.done)
		if s.err = startControlPlane(f.ctx, s.cp); s.err != nil && f.ctx.Err() == nil {
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

// blank makes a control plane that is not started. f.mu is held.
func (f *Factory) blank(n networks) *controlPlane {
	f.made++
	return &controlPlane{
		networks: n, exe: f.opts.Exe, logs: f.opts.Logs, log: f.opts.Log,
		dir: filepath.Join(f.opts.Dir, strconv.Itoa(f.made)),
	}
}

// Form makes a cluster whose API server's certificate is valid for cfg.TLSSANs.
func (f *Factory) Form(ctx context.Context, cfg guest.PlaneConfig) (guest.Plane, error) {
	want := defaults()
	if cfg.ServiceCIDR.IsValid() {
		want.services = cfg.ServiceCIDR
	}
	if cfg.PodCIDR.IsValid() {
		want.pods = cfg.PodCIDR
	}
	want.domain = cmp.Or(cfg.DNSDomain, want.domain)
	want.plain = cfg.PlainSecrets
	cp, err := f.make(ctx, want, cfg.Saved)
	if err != nil {
		return nil, err
	}
	p, err := f.assemble(ctx, cp, cfg)
	if err != nil {
		cp.stop()
		return nil, err
	}
	return p, nil
}

// make returns a running control plane, with a saved state if there is one.
func (f *Factory) make(ctx context.Context, want networks, saved *guest.PlaneSaved) (*controlPlane, error) {
	if saved == nil {
		return f.take(ctx, want)
	}
	want.plain = saved.Encryption == nil
	f.mu.Lock()
	cp := f.blank(want)
	f.mu.Unlock()
	cp.saved = saved
	err := startControlPlane(ctx, cp)
	cp.saved = nil // etcd has it now
	_ = os.Remove(cp.snapshotFile())
	return cp, err
}

// take returns the spare if it fits, or a new one.
func (f *Factory) take(ctx context.Context, want networks) (*controlPlane, error) {
	f.mu.Lock()
	s := f.spare
	f.spare = nil
	f.mu.Unlock()
	if s != nil {
		select {
		case <-s.done:
		case <-ctx.Done():
			f.warm.Go(func() { <-s.done; s.cp.stop() })
			return nil, fmt.Errorf("waiting for the control plane: %w", ctx.Err())
		}
		if s.err == nil && s.cp.networks == want {
			return s.cp, nil
		}
		s.cp.stop()
	}
	if f.ctx.Err() != nil {
		return nil, errClosed
	}
	f.mu.Lock()
	cp := f.blank(want)
	f.mu.Unlock()
	return cp, startControlPlane(ctx, cp)
}

func (f *Factory) assemble(ctx context.Context, cp *controlPlane, cfg guest.PlaneConfig) (*plane, error) {
	sans := cfg.TLSSANs
	if err := cp.serve(sans); err != nil {
		return nil, err
	}
	if err := cp.until(ctx, "the API server's certificate for "+joined(sans), func(ctx context.Context) error {
		return cp.goodFor(ctx, sans)
	}); err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(cp.config)
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	p := &plane{
		cp: cp, log: f.opts.Log, dynamic: dyn,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(cp.client.Discovery())),
	}
	p.ctx, p.cancel = context.WithCancel(f.ctx)
	p.closed = func() { f.forget(p) }
	f.mu.Lock()
	f.planes[p] = true
	volumes, known := f.volumes[string(cp.ca.pem)]
	if !known {
		volumes = traffic.NewVolumes()
		f.volumes[string(cp.ca.pem)] = volumes
	}
	f.mu.Unlock()
	p.cluster = p.programs(cfg.Disable, volumes)
	p.kubelet = newKubelet(p)
	p.cluster.Exec = p.kubelet.exec
	cp.egress.serveNodes(p.kubelet.at, p.kubelet.api())
	cp.egress.traffic.Store(p.cluster.Traffic)
	p.running.Go(func() { cp.watch(p.ctx) })
	p.running.Go(func() { p.kubelet.run(p.ctx) })
	p.running.Go(func() { operators.Run(p.ctx, p.cluster) })
	operator := &gpuoperator.Operator{Client: cp.client, Dynamic: dyn, Log: f.opts.Log}
	p.running.Go(func() { operator.Run(p.ctx) })
	queues := &kueue.Manager{Client: cp.client, Dynamic: dyn, Log: f.opts.Log}
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

// goodFor checks the certificate that the API server shows now.
func (cp *controlPlane) goodFor(ctx context.Context, sans []string) error {
	roots := x509.NewCertPool()
	roots.AddCert(cp.ca.cert)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", cp.address())
	if err != nil {
		return err
	}
	defer conn.Close()
	shown := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	for _, san := range sans {
		if err := shown.VerifyHostname(san); err != nil && net.ParseIP(san) != nil {
			return err
		}
	}
	return nil
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
		s.cp.stop() // also ends a start in progress
		<-s.done
		s.cp.stop()
	}
	f.warm.Wait()
	if err := os.RemoveAll(f.opts.Dir); err != nil {
		return fmt.Errorf("data of control planes: %w", err)
	}
	return nil
}

// Processes returns the ids of all running components.
func (f *Factory) Processes() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pids []int
	add := func(cp *controlPlane) {
		for _, p := range cp.processes() {
			pids = append(pids, p.cmd.Process.Pid)
		}
	}
	for p := range f.planes {
		add(p.cp)
	}
	if f.spare != nil {
		add(f.spare.cp)
	}
	return pids
}
