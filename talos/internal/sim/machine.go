package sim

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	api "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Machine is one machine. What follows world is guarded by its lock.
type Machine struct {
	api.UnimplementedMachineServiceServer

	world   *World
	address string
	log     []byte

	maintenance tls.Certificate
	config      config.Provider
	serving     *tls.Certificate
	etcd        bool // its data directory is not empty
	member      uint64
	away        int    // connections that are refused
	starting    int    // requests to bootstrap that come too early
	joined      bool   // its kubelet is known to the control plane
	version     string // of Talos
	schematic   string // of its image, as text; "": it is of nobody
	installing  string // the version that it starts with next
	installs    string // its schematic
	busy        int    // how often it answers before that
	boots       int
	podsStart   int // looks at its static pods before they run
	board       *pvesim.Board
	pods        *guest.Machine // whose simulated programs its containers run
	snapshot    []byte         // of etcd, to begin with
	applied     int
	restarted   []string
}

// Log returns the first bytes of the kernel's log, as qemu-ga reads them.
func (m *Machine) Log(_ context.Context, count int) ([]byte, error) {
	if err := m.world.step("log " + m.address); err != nil {
		return nil, err
	}
	if count > len(m.log) {
		return nil, proxmox.ErrShort
	}
	return m.log[:count], nil
}

// Config is the configuration that the machine has; "" if it has none.
func (m *Machine) Config() string {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.config == nil {
		return ""
	}
	text, err := m.config.Bytes()
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Applied is how many configurations the machine took.
func (m *Machine) Applied() int {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	return m.applied
}

// Etcd reports whether the machine has data of etcd.
func (m *Machine) Etcd() bool {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	m.join()
	return m.etcd
}

// cloud is how a machine runs that booted from a disk image (runtime.ModeCloud).
type cloud struct{}

func (cloud) String() string        { return "cloud" }
func (cloud) RequiresInstall() bool { return false }
func (cloud) InContainer() bool     { return false }

// ApplyConfiguration is internal/app/machined/internal/server/v1alpha1's.
func (m *Machine) ApplyConfiguration(_ context.Context, in *api.ApplyConfigurationRequest) (*api.ApplyConfigurationResponse, error) {
	got, err := configloader.NewFromBytes(in.GetData())
	if err == nil {
		_, err = got.Validate(cloud{})
	}
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	m.config, m.serving, m.away, m.starting, m.podsStart = got, nil, 2, 2, 1
	m.applied++
	if m.joined { // its kubelet starts again
		m.joined = false
		m.world.settle()
	}
	return &api.ApplyConfigurationResponse{Messages: []*api.ApplyConfiguration{{Mode: api.ApplyConfigurationRequest_NO_REBOOT, ModeDetails: "Applied configuration without a reboot"}}}, nil
}

// Bootstrap begins etcd here.
func (m *Machine) Bootstrap(ctx context.Context, in *api.BootstrapRequest) (*api.BootstrapResponse, error) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	m.join()
	if err := m.isServer("bootstrap"); err != nil {
		return nil, err
	}
	if m.etcd {
		return nil, status.Error(codes.AlreadyExists, "etcd data directory is not empty")
	}
	if m.starting > 0 {
		m.starting--
		return nil, status.Error(codes.FailedPrecondition, "bootstrap is not available yet")
	}
	begin := func() error { return m.form(ctx, nil) }
	if in.GetRecoverEtcd() {
		begin = func() error { return m.recover(ctx) }
	}
	if err := begin(); err != nil {
		return nil, err
	}
	if _, run := m.members(); run == 0 {
		m.forgetAll() // of machines that are gone
	}
	m.enter()
	if !in.GetRecoverEtcd() {
		m.world.begun[m.config.Cluster().ID()]++
	}
	m.world.settle()
	return &api.BootstrapResponse{Messages: []*api.Bootstrap{{}}}, nil
}

func (m *Machine) isServer(what string) error {
	if m.config == nil || !m.config.Machine().Type().IsControlPlane() {
		return status.Errorf(codes.Unimplemented, "%s is only available on control plane nodes", what)
	}
	return nil
}

// ServiceRestart restarts a service in no time.
func (m *Machine) ServiceRestart(_ context.Context, in *api.ServiceRestartRequest) (*api.ServiceRestartResponse, error) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	m.restarted = append(m.restarted, in.GetId())
	m.joined = m.joined && in.GetId() != "kubelet"
	m.world.settle()
	return &api.ServiceRestartResponse{Messages: []*api.ServiceRestart{{}}}, nil
}

// Restarted are the services that were restarted.
func (m *Machine) Restarted() []string {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	return m.restarted
}

// ServiceList has the services that are asked for.
func (m *Machine) ServiceList(context.Context, *emptypb.Empty) (*api.ServiceListResponse, error) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	m.world.settle()
	all := []*api.ServiceInfo{{Id: "kubelet", State: "Running", Events: &api.ServiceEvents{}, Health: &api.ServiceHealth{}}}
	if m.isServer("etcd") == nil {
		all = append(all, &api.ServiceInfo{Id: "etcd", State: map[bool]string{false: "Preparing", true: "Running"}[m.isMember()], Events: &api.ServiceEvents{}, Health: &api.ServiceHealth{}})
	}
	return &api.ServiceListResponse{Messages: []*api.ServiceList{{Services: all}}}, nil
}

// Kubeconfig is an archive with one file, as Copy sends it.
func (m *Machine) Kubeconfig(_ *emptypb.Empty, to api.MachineService_KubeconfigServer) error {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if err := m.isServer("kubeconfig"); err != nil {
		return err
	}
	c := m.config.Cluster()
	if p := m.plane(); p != nil {
		return sendKubeconfig(string(p.Kubeconfig(c.Endpoint().String())), to)
	}
	return sendKubeconfig(fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n- name: %s\n  cluster:\n    server: %s\n    certificate-authority-data: %s\n",
		c.Name(), c.Endpoint(), base64.StdEncoding.EncodeToString(c.IssuingCA().Crt)), to)
}

func sendKubeconfig(text string, to api.MachineService_KubeconfigServer) error {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "kubeconfig", Size: int64(len(text)), Mode: 0o600}); err != nil {
		return err
	}
	if _, err := strings.NewReader(text).WriteTo(t); err != nil {
		return err
	}
	if err := z.Close(); err != nil { // the archive's end is not written, as on a machine
		return err
	}
	return to.Send(&common.Data{Bytes: out.Bytes()})
}
