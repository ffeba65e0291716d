package firstboot

import (
	"context"
	"slices"
	"sync"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// seedsHad are the seeds that this run has seen in the drives of this cluster's machines.
type seedsHad struct {
	mu    sync.Mutex
	names map[string]bool
}

func (h *seedsHad) note(vm *proxmox.VM) {
	if vm == nil || vm.Seed == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil {
		h.names = map[string]bool{}
	}
	h.names[proxmox.Volume{ID: vm.Seed}.Name()] = true
}

func (h *seedsHad) has(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names[name]
}

// DestroyVM destroys a machine or template of the cluster. From then on its seed counts as
// the cluster's own. A protection that the file speaks of is lifted.
func (m *Maker) DestroyVM(ctx context.Context, vm *proxmox.VM) error {
	m.had.note(vm)
	if m.spec.OwnsProtection(vm.Name) {
		return m.proxmox.VMs.RemoveProtected(ctx, vm)
	}
	return m.proxmox.VMs.Remove(ctx, vm)
}

// ExcludeForeign removes from volumes the seeds that another Proxmox may own. If two Proxmox share
// a storage and each has a cluster of the same name, such as a test and its production, their
// seeds have the same names, and neither sees the other's VMs. On such a storage, a seed belongs
// to this cluster if one of its machines has or had it in its drive, or if the current file
// makes it.
func (m *Maker) ExcludeForeign(ctx context.Context, host string, volumes []proxmox.Volume) ([]proxmox.Volume, error) {
	if !slices.ContainsFunc(volumes, func(v proxmox.Volume) bool { return v.Content == hostprep.ISOContent }) {
		return volumes, nil
	}
	storages, err := m.proxmox.Storages.List(ctx, host)
	if err != nil {
		return nil, err
	}
	shared := map[string]bool{}
	for _, s := range storages {
		shared[s.Name] = s.Shared
	}
	var made map[string]bool
	var out []proxmox.Volume
	for _, v := range volumes {
		if v.Content == hostprep.ISOContent && shared[v.Storage()] {
			if made == nil {
				if made, err = m.seedsInDrives(ctx); err != nil {
					return nil, err
				}
			}
			if !made[v.Name()] && !m.had.has(v.Name()) {
				converge.Progressf(ctx, "%s on %s stays: %s is shared, and another Proxmox with a cluster called %s may use it; "+
					"if there is none, template:prune deletes it", v.ID, host, v.Storage(), m.spec.Name)
				continue
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// seedsInDrives notes which seeds the machines of this cluster have in their drives, and returns
// the seeds that the file makes.
func (m *Maker) seedsInDrives(ctx context.Context) (map[string]bool, error) {
	vms, err := m.proxmox.VMs.List(ctx, names.Tag(m.spec))
	if err != nil {
		return nil, err
	}
	for _, seen := range vms {
		vm, err := m.proxmox.VMs.GetFromSummary(ctx, names.Tag(m.spec), seen)
		if err != nil {
			return nil, err
		}
		m.had.note(vm)
	}
	made := map[string]bool{}
	for _, n := range m.spec.Machines() {
		if !n.OnProxmox() {
			continue
		}
		sd, err := m.Seed(n)
		if err != nil {
			return nil, err
		}
		made[sd.File] = true
	}
	return made, nil
}
