package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	api "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cps-gpu/homelab/sim/guest"
)

// chunk is how much of a snapshot is in one message (pkg/chunker/stream).
const chunk = 1024

// EtcdSnapshot sends one: what the control plane has, in a format of its own.
func (m *Machine) EtcdSnapshot(_ *api.EtcdSnapshotRequest, to api.MachineService_EtcdSnapshotServer) error {
	text, err := m.save(to.Context())
	if err != nil {
		return err
	}
	for part := range slices.Chunk(text, chunk) {
		if err := to.Send(&common.Data{Bytes: part}); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) save(ctx context.Context) ([]byte, error) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if err := m.etcdAnswers(); err != nil {
		return nil, err
	}
	saved := &guest.PlaneSaved{}
	if p, ok := m.plane().(guest.PlaneSaver); ok {
		var err error
		if saved, err = p.Save(ctx); err != nil {
			return nil, err
		}
	}
	return json.Marshal(saved)
}

// EtcdRecover takes a snapshot, which Bootstrap begins with. It is on the disk of the machine.
func (m *Machine) EtcdRecover(from api.MachineService_EtcdRecoverServer) error {
	if err := m.recoverable(); err != nil {
		return err
	}
	var text bytes.Buffer
	for {
		part, err := from.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		text.Write(part.GetBytes())
	}
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	m.snapshot = text.Bytes()
	return from.SendAndClose(&api.EtcdRecoverResponse{Messages: []*api.EtcdRecover{{}}})
}

// recoverable says why a machine takes no snapshot: the disk that it would be on is mounted after its API answers.
func (m *Machine) recoverable() error {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.starting > 0 {
		m.starting--
		return status.Error(codes.FailedPrecondition, "etcd service is not ready for recovery yet")
	}
	return m.isServer("etcd recover")
}

// recover begins the etcd of the machine's cluster again, with the snapshot that it was given and this member alone. The world
// is locked.
func (m *Machine) recover(ctx context.Context) error {
	saved := &guest.PlaneSaved{}
	if err := json.Unmarshal(m.snapshot, saved); err != nil {
		return status.Error(codes.Unknown, "error verifying snapshot: "+err.Error())
	}
	id := m.config.Cluster().ID()
	if old := m.plane(); old != nil {
		if err := old.Close(); err != nil {
			return err
		}
	}
	if err := m.form(ctx, saved); err != nil {
		return err
	}
	m.forgetAll()
	for _, o := range m.world.machines { // kubelets find the API at the same address, with the same authority
		if o.config != nil && o.config.Cluster().ID() == id {
			o.joined = false
		}
	}
	m.snapshot = nil
	return nil
}

// Reset wipes what etcd and the kubelet have, and restarts the machine, which keeps its configuration.
func (m *Machine) Reset(_ context.Context, in *api.ResetRequest) (*api.ResetResponse, error) {
	wipe := in.GetSystemPartitionsToWipe()
	if in.GetGraceful() || !in.GetReboot() || len(wipe) != 1 || wipe[0].GetLabel() != constants.EphemeralPartitionLabel {
		return nil, status.Error(codes.Unimplemented, "what else can be reset is not played")
	}
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if p := m.plane(); p != nil && m.joined {
		p.Leave(m.name())
	}
	m.etcd, m.joined, m.snapshot, m.away, m.starting = false, false, nil, 3, 2
	m.boots++
	return &api.ResetResponse{Messages: []*api.Reset{{}}}, nil
}

// Read sends the number of the machine's start.
func (m *Machine) Read(in *api.ReadRequest, to api.MachineService_ReadServer) error {
	if in.GetPath() != "/proc/sys/kernel/random/boot_id" {
		return status.Error(codes.NotFound, "stat "+in.GetPath()+": no such file or directory")
	}
	m.world.mu.Lock()
	id := fmt.Sprintf("%s-%d\n", m.address, m.boots)
	m.world.mu.Unlock()
	return to.Send(&common.Data{Bytes: []byte(id)})
}
