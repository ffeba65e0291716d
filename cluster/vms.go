package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// A VM of vms: goes the way of a node's machine, with three differences: its boot disk is an image or a
// template of its own, nobody logs in to it, and Kubernetes knows nothing of it, so it stops
// without a drain and without a turn.

// importVM makes the VM from its image, off. What differs from the file then is changed as with any VM.
func importVM(ctx context.Context, c *site, n spec.Node, to proxmox.VMSpec) (*proxmox.VM, error) {
	file, err := c.imageFile(n)
	if err != nil {
		return nil, err
	}
	from := n.Boot.Cloud
	if n.Role.IsNode() {
		if from, err = c.imager().Image(ctx, n); err != nil {
			return nil, err
		}
	}
	image, err := c.Proxmox.Storages.Fetch(ctx, n.Host, c.spec.Image.ImageStorage,
		proxmox.Image{URL: from.URL, SHA256: from.SHA256, SHA512: from.SHA512, FileName: file})
	if err != nil {
		return nil, err
	}
	return c.Proxmox.VMs.Create(ctx, proxmox.CreateSpec{
		Name: to.Name, Host: to.Host, VMID: to.VMID, Owner: to.Owner, Tags: to.Tags, Image: image, Storage: to.Storage,
		Cores: to.Cores, Memory: to.Memory, CPUType: to.CPUType, NICs: to.NICs, Seed: to.Seed, Description: to.Description,
	})
}

// installVM makes a VM with an empty disk and the discs of its installation, off.
func installVM(ctx context.Context, c *site, n spec.Node, to proxmox.VMSpec) (*proxmox.VM, error) {
	return c.Proxmox.VMs.Create(ctx, proxmox.CreateSpec{
		Name: to.Name, Host: to.Host, VMID: to.VMID, Owner: to.Owner, Tags: to.Tags, System: windowsSystem, Storage: to.Storage, DiskSize: n.OSDisk.Size,
		Cores: to.Cores, Memory: to.Memory, CPUType: to.CPUType, SecureBoot: true, NICs: to.NICs, Seed: to.Seed, Discs: n.Boot.ISO.Discs(), Description: to.Description,
	})
}

// agentStep waits for the agent of a VM. One whose disc waited for a key in vain is reset, which is asked for.
func (c onProxmox) agentStep(n spec.Node) *converge.Resource[string] {
	step := c.nodes.AgentStep(n)
	if n.FromDiscs() {
		step.Costs = func(ctx context.Context, _ string, d converge.Diff) []converge.Cost {
			if d.Empty() || !nodes.MissedKey(ctx, c.nodes, n) {
				return nil
			}
			return c.stops(ctx, "nothing is installed on it, and its firmware found nothing to boot", n.Name)
		}
	}
	return step
}

// windowsSystem is Proxmox's name of Windows 11 and of Windows Server since 2022.
const windowsSystem = "win11"

// checkDiscs looks for the discs of the VMs that are to be installed.
func (c *holdings) checkDiscs(ctx context.Context) error {
	var errs []error
	for _, n := range c.spec.Machines() {
		if !n.FromDiscs() {
			continue
		}
		vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
		if err != nil {
			return err
		}
		for _, disc := range n.Boot.ISO.Discs() {
			if vm != nil && !vm.Unfinished {
				break
			}
			storage, _, _ := strings.Cut(disc, ":")
			all, err := c.Proxmox.Storages.Volumes(ctx, n.Host, storage, "")
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(v proxmox.Volume) bool { return v.ID == disc }) {
				errs = append(errs, fmt.Errorf("vms.%s.iso: %s has no %s, or the token may not see it (Datastore.Audit on /storage/%s); "+
					"upload it in Proxmox's web interface: the storage, ISO Images", n.Name, n.Host, disc, storage))
			}
		}
	}
	return errors.Join(errs...)
}

// imageFile is the name of a machine's image on a storage. That of a node follows from its address: a plan does not
// know the checksum.
func (c *site) imageFile(n spec.Node) (string, error) {
	from, err := n.Boot.Cloud, error(nil)
	if n.Role.IsNode() {
		from.URL, err = c.imager().ImageURL(n)
	}
	return names.VMImage(c.spec, from), err
}

// vmDowntime is how long a VM that is not a node is down for a restart, by what guests usually need.
const vmDowntime = "1 to 5 min"

// stops is the cost of machines that go down and come back.
func (c *site) stops(ctx context.Context, why string, machines ...string) []converge.Cost {
	var out []converge.Cost
	for _, name := range machines {
		if n, _ := c.spec.Machine(name); n.Role != spec.PlainVM {
			out = append(out, c.members.Stops(ctx, why, name)...)
			continue
		}
		cost := converge.Cost{Machine: name, Object: members.SortNode, Kind: converge.CostStop, Reason: why, Downtime: vmDowntime}
		vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), name)
		switch {
		case err != nil:
			cost.Identity = "unknown"
		case vm != nil:
			cost.Identity = vm.Identity()
		}
		out = append(out, cost)
	}
	return out
}

// takeDown calls do, which stops a machine: a node in its turn, and drained.
func (c *site) takeDown(ctx context.Context, n spec.Node, do func(context.Context) error) error {
	if n.Role == spec.PlainVM {
		return do(ctx)
	}
	return c.members.TakeDown(ctx, n, do)
}

// isNoNode reports whether a VM carries the tag of those that are not nodes.
func isNoNode(tags []string) bool { return slices.Contains(tags, spec.NoNode) }
