package sim

import (
	"context"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
	api "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Version is the release of Talos that machines have at first.
const Version = "v1.13.7"

// installTime is how often a machine is asked while it installs another version, before it restarts.
const installTime = 2

// release is the version of Talos that runs. The world is locked.
func (m *Machine) release() string {
	if m.version == "" {
		return Version
	}
	return m.version
}

// Version is that of Talos. A machine that installs another one answers with its own until it restarts.
func (m *Machine) Version(context.Context, *emptypb.Empty) (*api.VersionResponse, error) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.installing != "" {
		if m.busy--; m.busy <= 0 {
			m.version, m.schematic, m.installing, m.away, m.joined = m.installing, m.installs, "", 3, false
			m.boots++
			return nil, status.Error(codes.Unavailable, "connection closed")
		}
	}
	return &api.VersionResponse{Messages: []*api.Version{{Version: &api.VersionInfo{Tag: m.release(), Os: "linux", Arch: "amd64"}}}}, nil
}

// Upgrade begins to install the version of an image. A server refuses while a member of etcd does not run, or of two.
func (m *Machine) Upgrade(_ context.Context, in *api.UpgradeRequest) (*api.UpgradeResponse, error) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	name, version, _ := strings.Cut(in.GetImage(), ":")
	id, ok := strings.CutPrefix(name, "factory.talos.dev/nocloud-installer/")
	schematic, built := m.world.schematics[id]
	if !ok || !built {
		return nil, status.Errorf(codes.Unknown, "error validating installer image %q: not found", in.GetImage())
	}
	if m.isServer("etcd") == nil {
		all, run := m.members()
		if all == 2 {
			return nil, status.Error(codes.Unknown, "error validating etcd for upgrade: etcd member count(2) is insufficient to maintain quorum if upgrade commences")
		}
		if run < all {
			return nil, status.Error(codes.Unknown, "error validating etcd for upgrade: etcd member is not healthy; all members must be healthy to perform an upgrade")
		}
	}
	if m.installing == "" { // the sequence is locked
		m.installing, m.installs, m.busy = version, string(schematic), installTime
	}
	return &api.UpgradeResponse{Messages: []*api.Upgrade{{Ack: "Upgrade request received"}}}, nil
}

// Boots is how often the machine started.
func (m *Machine) Boots() int {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	return m.boots
}

// staticPods are those of a server, in the versions of its configuration. They start one look later. The world is locked.
func (m *Machine) staticPods() (out []resource.Resource) {
	if m.isServer("static pods") != nil {
		return nil
	}
	c := m.config.Cluster()
	for name, image := range map[string]string{"kube-apiserver": c.APIServer().Image(), "kube-controller-manager": c.ControllerManager().Image(), "kube-scheduler": c.Scheduler().Image()} {
		pod := k8s.NewStaticPodStatus(k8s.NamespaceName, "kube-system/"+name+"-"+m.name())
		ready := "True"
		if m.podsStart > 0 {
			ready = "False"
		}
		pod.TypedSpec().PodStatus = map[string]any{
			"conditions":        []any{map[string]any{"type": "Ready", "status": ready}},
			"containerStatuses": []any{map[string]any{"name": name, "image": image}},
		}
		out = append(out, pod)
	}
	m.podsStart = max(0, m.podsStart-1)
	return out
}
