package site

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/bastion"
	"github.com/cps-gpu/homelab/sim/lab/charts"
	"github.com/cps-gpu/homelab/sim/lab/plane"
	"github.com/cps-gpu/homelab/sim/lab/plane/simulated"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/sim/qemu"
)

// Options configure the lab.
type Options struct {
	Dir   string       // its folder
	Model string       // a preset's name, or a model's YAML file
	Speed float64      // how many times faster than real the host and its guests are; 0 is DefaultSpeed
	Exe   string       // the program that runs
	Log   *slog.Logger // what happens

	Guests labctl.Guests // real VMs; the zero value: simulated ones, with simulated clusters in them

	Parts
}

// Parts are what a program of the lab has beyond the simulators; nil: it has none.
type Parts struct {
	// Control returns what starts real control planes for simulated VMs, with their data in dir
	// and a log for each program in logs.
	Control func(dir, logs string, log *slog.Logger) plane.Start
	// LAN makes a network for real VMs.
	LAN func(ctx context.Context, g labctl.Guests) (LAN, error)
}

// LAN is a network of real VMs.
type LAN interface {
	qemu.LAN
	// Dial connects to a VM.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Close()
}

// DefaultSpeed lets a VM boot in about a second.
const DefaultSpeed = 10

// Site is a running lab.
type Site struct {
	State labctl.State

	opts    Options
	planes  *plane.Factory // nil with real guests
	real    *guests        // nil with simulated ones
	sim     *pvesim.Sim
	bastion *bastion.Bastion
	server  *http.Server
	served  chan error
}

// Serve runs a lab in o.Dir until ctx ends. A second lab in the same folder is refused.
func Serve(ctx context.Context, o Options) error {
	alive, err := labctl.LockRunning(o.Dir)
	if err != nil {
		return err
	}
	defer alive.Unlock()
	if err := labctl.RemoveState(o.Dir); err != nil { // of a lab that crashed
		return err
	}
	s, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	if err := labctl.WriteState(o.Dir, s.State); err != nil {
		return err
	}
	defer func() { _ = labctl.RemoveState(o.Dir) }()
	o.Log.Info("the lab is ready", "endpoint", s.State.Endpoint, "model", o.Model, "simulated", o.Guests.Banner())
	select {
	case <-ctx.Done():
		o.Log.Info("the lab ends")
		return nil
	case err := <-s.served:
		return fmt.Errorf("the API server of the simulated host ended: %w", err)
	}
}

// start makes the parts from the ground up.
func start(ctx context.Context, o Options) (*Site, error) {
	if o.Speed <= 0 {
		o.Speed = DefaultSpeed
	}
	model, err := pvesim.LoadModel(o.Model)
	if err != nil {
		return nil, err
	}
	model = model.WithOperator()
	tokenID, err := writeToken(&model, filepath.Join(o.Dir, "token"))
	if err != nil {
		return nil, err
	}
	digest, err := labctl.Digest(o.Exe)
	if err != nil {
		return nil, err
	}
	s := &Site{opts: o, served: make(chan error, 1)}
	s.State = labctl.State{
		PID: os.Getpid(), Started: time.Now().Round(time.Second), Binary: digest, Model: o.Model, Guests: o.Guests, Hardware: labmodel.HardwareOf(model),
		TokenID: tokenID, TokenFile: filepath.Join(o.Dir, "token"), Charts: filepath.Join(o.Dir, "charts"),
	}
	if err := charts.Write(s.State.Charts); err != nil {
		return nil, err
	}
	host := pvesim.Options{Speed: o.Speed, Internet: guest.DefaultInternet(), Log: o.Log, Lean: true}
	if o.Guests.Real() {
		err = s.realGuests(ctx, &host)
	} else {
		err = s.simulatedClusters(ctx, &host)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.sim = pvesim.New(model, host)
	if s.bastion, err = bastion.Listen(ctx, o.Dir, s.dial); err != nil {
		s.close()
		return nil, err
	}
	s.State.SOCKS = s.bastion.SOCKS()
	s.State.Jump = labctl.Jump{Address: s.bastion.Jump(), User: bastion.User, HostKey: s.bastion.HostKey, KeyFile: s.bastion.KeyFile}
	if err := errors.Join(s.shells(ctx, model), s.listen(ctx)); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// simulatedClusters starts control planes when guests start K3s.
func (s *Site) simulatedClusters(ctx context.Context, host *pvesim.Options) error {
	o := s.opts
	o.Log.Info("starting the Kubernetes control plane")
	if err := os.RemoveAll(s.planeData()); err != nil { // of a lab that crashed
		return fmt.Errorf("lab: %w", err)
	}
	begin := simulated.Starter(labctl.KubernetesVersion)
	switch {
	case o.Guests.Kubernetes && o.Control == nil:
		return errors.New("this program of the lab has no real Kubernetes")
	case o.Guests.Kubernetes:
		begin = o.Control(s.planeData(), filepath.Join(o.Dir, "log"), o.Log)
	}
	s.planes = plane.New(ctx, plane.Options{Start: begin, Log: o.Log, Proxmox: func() *http.Client { return s.sim.Client() }})
	s.planes.Prewarm()
	host.Kubernetes = s.planes
	return nil
}

// planeData is where control planes keep their data.
func (s *Site) planeData() string { return filepath.Join(s.opts.Dir, "plane") }

// dial connects to an address of the virtual network: one that a cluster's load
// balancer gave to a Service, or a machine's.
func (s *Site) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.real != nil {
		return s.dialReal(ctx, network, address)
	}
	if conn, ok := s.planes.Reach(address); ok { //nolint:contextcheck // the connection outlives the dialling, and ends with the cluster
		return conn, nil
	}
	return s.sim.Network().Dial(ctx, network, address)
}

// shells lets anyone who may use the jump host log in to the simulated hosts as root.
func (s *Site) shells(ctx context.Context, model pvesim.Model) error {
	signer, err := ssh.LoadSigner(s.bastion.KeyFile)
	if err != nil {
		return err
	}
	s.State.Hosts = map[string]labctl.Host{}
	for _, h := range model.Hosts {
		if h.Offline {
			continue
		}
		shell, err := s.sim.HostShell(ctx, h.Name, ssh.AuthorizedKey(signer.PublicKey()))
		if err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		s.State.Hosts[h.Name] = labctl.Host{Address: shell.Address.String(), HostKey: shell.HostKey}
	}
	return nil
}

// listen serves the Proxmox API over TLS, with HTTP/1.1 as pveproxy: its status
// lines carry the error, and HTTP/2 has none.
func (s *Site) listen(ctx context.Context) error {
	cert, fingerprint, err := certificate()
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the Proxmox API: %w", err)
	}
	s.State.Endpoint, s.State.Fingerprint = "https://"+l.Addr().String(), fingerprint
	s.server = &http.Server{
		Handler:           s.sim.Handler(),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(quiet{}, "", 0),
	}
	go func() { s.served <- s.server.ServeTLS(l, "", "") }()
	return nil
}

// quiet discards net/http's messages about clients that disconnect.
type quiet struct{}

func (quiet) Write(p []byte) (int, error) { return len(p), nil }

// close ends everything. Control planes go first: nothing asks for a new one then.
func (s *Site) close() {
	if s.server != nil {
		_ = s.server.Close()
	}
	if s.planes != nil {
		if err := errors.Join(s.planes.Close(), os.RemoveAll(s.planeData())); err != nil {
			s.opts.Log.Warn("control planes", "why", err)
		}
	}
	if s.sim != nil {
		s.sim.Close()
	}
	if s.bastion != nil {
		_ = s.bastion.Close()
	}
	if s.real != nil {
		s.real.close()
	}
}

// writeToken gives the model's operator token a secret of this lab's own, and
// writes it where only its owner may read.
func writeToken(model *pvesim.Model, file string) (id string, err error) {
	token := &model.Tokens[0]
	token.Secret = uuid.NewString()
	if err := os.WriteFile(file, []byte(token.Secret+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("API token: %w", err)
	}
	return token.ID, nil
}
