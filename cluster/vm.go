package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

// vmStep makes a node's VM and keeps it up to date.
func (c onProxmox) vmStep(n spec.Node) *converge.Resource[*proxmox.VM] {
	// A VM does not show which template it was cloned from, so a check needs no template.
	want := func(template string) (proxmox.VMSpec, error) {
		sd, err := c.seeds.Seed(n)
		return c.vm(n, template, sd.File), err
	}
	return &converge.Resource[*proxmox.VM]{
		ID: "vm/" + n.Name,
		Observe: func(ctx context.Context) (*proxmox.VM, error) {
			vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
			if err != nil {
				return nil, err
			}
			if met := c.nodes.Observation(n.Name); vm != nil && !met.Made.Load() {
				met.Absent.Store(false)
			}
			if vm != nil {
				return vm, nil
			}
			if n.Adopt {
				return c.adoptable(ctx, n, want)
			}
			c.nodes.Observation(n.Name).Absent.Store(true)
			// We must not take over a copy that has this name, and create no VM beside it.
			return nil, converge.Permanent(c.Proxmox.VMs.NameConflict(ctx, names.Tag(c.spec), n.Name))
		},
		Diff: func(vm *proxmox.VM) converge.Diff {
			to, err := want("")
			if err != nil {
				return converge.Missing(err.Error())
			}
			return c.seeds.KeepSeed(n, to, vm).Diff(vm)
		},
		Costs: c.costsOfVM(n),
		Apply: func(ctx context.Context, vm *proxmox.VM) error {
			c.nodes.Observation(n.Name).Made.CompareAndSwap(false, vm == nil)
			to, err := want("")
			if err != nil {
				return err
			}
			to = c.seeds.KeepSeed(n, to, vm)
			switch {
			case n.FromImage() && vm == nil:
				if vm, err = importVM(ctx, c.site, n, to); err != nil {
					return err
				}
			case n.FromDiscs() && vm == nil:
				if vm, err = installVM(ctx, c.site, n, to); err != nil {
					return err
				}
			case !n.FromImage() && !n.FromDiscs() && !n.Adopt:
				if to, err = c.templates.SetTemplate(ctx, n, to, vm); err != nil {
					return err
				}
			}
			return c.shape(ctx, n, to, vm)
		},
		Settle: 2 * time.Minute,
	}
}

// shape applies a spec to a VM. If the VM must stop for that, it is drained first, and only one
// VM is down at a time.
func (c onProxmox) shape(ctx context.Context, n spec.Node, to proxmox.VMSpec, vm *proxmox.VM) error {
	switch diff := to.Diff(vm); {
	case vm == nil:
		// Everything known about a machine of this name is about an earlier machine.
		if err := c.nodes.DropHostKey(n.Name); err != nil {
			return err
		}
		if err := c.hosts.Flush(); err != nil { // even a run that is killed must not leave the old keys
			return err
		}
	case diff.Effect() == converge.Replace && n.Role == spec.FileServer:
		return converge.Permanent(fmt.Errorf("%s cannot change to what the file says while it exists: %s\n"+
			"  it holds data, so homelab does not recreate it: restore its earlier settings in the file, or move its data by hand", n.Name, replacements(diff)))
	case diff.Effect() == converge.Replace && n.Role == spec.PlainVM:
		return converge.Permanent(fmt.Errorf("%s cannot change to what the file says while it exists: %s\n"+
			"  to recreate it, without what is on its disks: remove it from the file, run homelab cluster:up, write it again, and run that once more", n.Name, replacements(diff)))
	case n.Role == spec.PlainVM: // nobody logs in to it
	case diff.Effect() == converge.Replace:
		if err := c.members.CheckRanges(ctx, n); err != nil {
			return converge.Permanent(err)
		}
		return converge.Permanent(fmt.Errorf("%s cannot change to what the file says while it exists: %s\n"+
			"  homelab node:replace -node=%s recreates it: drains it, destroys it with its disks, clones it, and lets it join again", n.Name, replacements(diff), printable.Word(n.Name)))
	case diff.Effect() == converge.Restart && vm.Running:
		return c.members.TakeDown(ctx, n, func(ctx context.Context) error {
			if err := unmountRemoved(ctx, c.nodes, n, diff, vm); err != nil {
				return err
			}
			shape := func() error { return c.Proxmox.VMs.Shape(ctx, to, vm) }
			if len(to.GPUs)+len(to.Devices) > len(vm.GPUs) {
				return c.withMoreCards(ctx, n, shape)
			}
			return shape()
		})
	case vm.Running:
		if err := unmountRemoved(ctx, c.nodes, n, diff, vm); err != nil {
			return err
		}
	}
	return c.Proxmox.VMs.Shape(ctx, to, vm)
}

// unmountRemoved unmounts what the VM loses. A machine that lets nobody log in has one disk alone.
func unmountRemoved(ctx context.Context, ns *nodes.Nodes, n spec.Node, diff converge.Diff, vm *proxmox.VM) error {
	if n.Boot != nil {
		return nil
	}
	return ns.UnmountRemoved(ctx, n, diff, vm)
}

// replacements returns the fields of a diff that require a replacement.
func replacements(d converge.Diff) converge.Diff {
	return slices.DeleteFunc(slices.Clone(d), func(f converge.Field) bool { return f.Effect != converge.Replace })
}

// costsOfVM is the cost of changing a running VM: its restart, or the removal of a disk.
func (c onProxmox) costsOfVM(n spec.Node) func(context.Context, *proxmox.VM, converge.Diff) []converge.Cost {
	return func(ctx context.Context, vm *proxmox.VM, d converge.Diff) []converge.Cost {
		if vm == nil || !vm.Running || d.Effect() > converge.Restart { // there is no VM, or the change is refused
			return nil
		}
		var out []converge.Cost
		if d.Effect() == converge.Restart {
			out = c.stops(ctx, members.RestartReason(d), n.Name)
		}
		for _, f := range d {
			if slot, _ := strings.CutPrefix(f.Path, "disk/"); f.Want == nodes.Detached {
				disk, _ := vm.Disk(slot)
				out = append(out, converge.Cost{
					Machine: "disk " + disk.Serial + " of " + n.Name, Identity: disk.Volume, Kind: converge.CostStop,
					Reason: "no longer in the file: detached, its volume is kept",
					Holds:  []converge.Loss{{Text: disk.Size.String(), ID: disk.Volume}},
				})
			}
		}
		return out
	}
}

// bootDisk is the slot of the disk that machines boot from.
const bootDisk = "scsi0"

// vm is the wanted state of a node's VM in Proxmox.
func (c *site) vm(n spec.Node, template, seedFile string) proxmox.VMSpec {
	s := c.spec
	to := proxmox.VMSpec{
		Name: n.Name, Host: n.Host, VMID: n.VMID, Owner: names.Tag(s), Tags: n.Tags, Pool: n.ResourcePool,
		Template: template, Storage: n.OSDisk.Storage,
		Cores: n.Cores, Memory: n.Memory, CPUType: n.CPUType, NUMA: n.NUMA.IsOn(),
		Hugepages: n.Hugepages, Affinity: n.Affinity, CPUUnits: n.CPUUnits, CPULimit: float64(n.CPULimit), Balloon: n.Balloon, TPM: n.TPM,
		OnBoot: n.OnBoot.IsOn(), Startup: n.Startup.String(), Protected: isOn(n.Protection), Description: n.Description, Note: true, Address: n.Address, Address6: n.Address6, Claims: claims(s, n),
		Seed:    s.Image.SeedStorage + ":iso/" + seedFile,
		Running: true,
		NICs: []proxmox.NIC{{
			Bridge: n.Network.Bridge, MAC: n.MAC.String(), VLAN: n.Network.VLAN, MTU: n.Network.MTU, Queues: n.Network.Queues, Firewall: isOn(n.Network.Firewall),
		}},
		Disks: []proxmox.Disk{disk(bootDisk, "", n.OSDisk.DiskOptions)},
	}
	to.NoAgent = n.Boot != nil && !n.Boot.Agent.IsOn()
	for _, card := range n.Networks {
		to.NICs = append(to.NICs, proxmox.NIC{Bridge: card.Bridge, MAC: card.MAC.String(), VLAN: card.VLAN, MTU: card.MTU, Firewall: isOn(card.Firewall)})
	}
	if n.Adopt {
		to.Adopted, to.Seed, to.SecureBoot = true, "", nil
	}
	for _, in := range n.NUMANodes {
		to.NUMANodes = append(to.NUMANodes, proxmox.NUMANode(in))
	}
	for i, d := range n.Disks {
		further := disk(fmt.Sprintf("scsi%d", i+1), d.Name, d.DiskOptions)
		further.Volume = d.Volume
		to.Disks = append(to.Disks, further)
	}
	for i := range n.GPUs.Count {
		to.GPUs = append(to.GPUs, proxmox.HostPCI{Mapping: c.mappingOf(n, i), PCIe: n.GPUs.PCIe.IsOn(), ROMBar: n.GPUs.ROMBar.IsOn()})
	}
	for _, d := range n.Devices {
		mapping := cmp.Or(d.NamedMapping(), names.DeviceMapping(s, n.Name, d.Name))
		if d.USB != "" {
			to.USB = append(to.USB, proxmox.HostUSB{Mapping: mapping})
			continue
		}
		to.Devices = append(to.Devices, proxmox.HostPCI{Mapping: mapping, PCIe: true, ROMBar: true})
	}
	return to
}

// claims are the addresses that the cluster takes beside those of its machines, as the file has
// them. Its servers carry them in their notes, so that the plan of another cluster sees them.
func claims(s *spec.Spec, n spec.Node) []string {
	if n.Role != spec.Server {
		return nil
	}
	var out []string
	if s.K3s.VIP.IsValid() {
		out = append(out, s.K3s.VIP.String())
	}
	if lb := s.Platform.LB; lb != nil {
		out = append(out, lb.Ranges()...)
	}
	return out
}

// mappingOf names the mapping of a node's i-th GPU: an existing one if the file names it,
// otherwise the node's own, which holds all its cards.
func (c *site) mappingOf(n spec.Node, i int) string {
	if len(n.GPUs.Mapping) > 0 {
		return n.GPUs.Mapping[i]
	}
	return names.Mapping(c.spec, n.Name)
}

func disk(slot, serial string, o spec.DiskOptions) proxmox.Disk {
	return proxmox.Disk{
		Slot: slot, Serial: serial, Storage: o.Storage, Size: o.Size,
		SSD: o.SSD.IsOn(), Discard: o.Discard.IsOn(), IOThread: o.IOThread.IsOn(),
		Cache: o.Cache, NoBackup: isOff(o.Backup), NoReplication: isOff(o.Replicate),
	}
}

// isOn says of a switch whether it is on; nil: it is left open.
func isOn(s spec.Switch) *bool {
	if s == 0 {
		return nil
	}
	return new(s.IsOn())
}

func isOff(s spec.Switch) *bool { return isOn(-s) }

// adoptable returns a node's VM that another owner has made, so that the differences can be shown
// and applied. The first of them are this cluster's tag and its mark. An unsuitable VM is refused
// with all the reasons, and not changed.
func (c onProxmox) adoptable(ctx context.Context, n spec.Node, want func(string) (proxmox.VMSpec, error)) (*proxmox.VM, error) {
	vm, err := c.Proxmox.VMs.GetForeign(ctx, names.Tag(c.spec), n.Name)
	if err != nil {
		return nil, err
	}
	if vm == nil {
		return nil, converge.Permanent(fmt.Errorf("there is no VM %s to adopt: remove adopt: true, and cluster:up creates it, or rename the VM that you mean", n.Name))
	}
	to, err := want("")
	if err != nil {
		return nil, err
	}
	reasons := unfitReasons(ctx, c.spec, c.Proxmox.Agents, vm, to)
	if len(reasons) == 0 {
		reasons, err = kubernetesReasons(ctx, c.machines, n, vm)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vm, err)
	}
	if len(reasons) > 0 {
		return nil, converge.Permanent(fmt.Errorf("%s cannot be adopted, and is not changed:\n  %s", vm, strings.Join(reasons, "\n  ")))
	}
	return vm, nil
}

// kubernetesReasons says which Kubernetes of others a VM to adopt has. A clone or a restored copy of a node of this
// cluster keeps the mark of its original.
func kubernetesReasons(ctx context.Context, c *machines, n spec.Node, vm *proxmox.VM) ([]string, error) {
	root := c.Proxmox.Agents.Runner(vm)
	reason, err := members.CheckAdoption(ctx, c.members.Kubernetes, members.Adoptee{
		Node: n, Root: root, Distribution: distributionOn(c.spec, func(string) remote.Runner { return root }),
		Copy: slices.ContainsFunc(append(strings.Fields(vm.Description), vm.Tags...), func(word string) bool { return names.IsMark(c.spec, word) }),
	})
	if reason == "" {
		return nil, err
	}
	return []string{reason}, nil
}

// unfitReasons says why a VM cannot become a node without changes.
func unfitReasons(ctx context.Context, of *spec.Spec, agents *proxmox.AgentClient, vm *proxmox.VM, to proxmox.VMSpec) []string {
	var reasons []string
	for _, f := range to.Diff(vm) {
		if f.Effect == converge.Replace {
			reasons = append(reasons, f.String())
		}
	}
	for _, tag := range vm.Tags {
		if strings.HasPrefix(tag, names.TagPrefix) && tag != names.Tag(of) && !names.IsMark(of, tag) {
			reasons = append(reasons, "it carries the tag "+tag+": it belongs to another cluster")
		}
	}
	if vm.Locked != "" {
		reasons = append(reasons, "it is locked: "+vm.Locked)
	}
	if len(reasons) > 0 {
		return reasons
	}
	if !vm.Running {
		return []string{"it does not run, so its contents cannot be checked: start it, and run this again"}
	}
	release, err := agents.ReadFile(ctx, vm, "/etc/os-release")
	switch {
	case errors.Is(err, proxmox.ErrAgentNotRunning), !vm.Agent:
		return []string{"its guest agent does not answer: install qemu-guest-agent in it, enable the agent in its options, and stop and start it"}
	case err != nil:
		return []string{"its system is not readable: " + printable.FirstLine(err.Error())}
	}
	id, _ := distro.Release(string(release))
	system := distro.System(string(release))
	switch os := distro.ByName(system); {
	case id != "ubuntu" && id != "debian":
		return []string{fmt.Sprintf("its system is %q, and nodes run Ubuntu or Debian", system)}
	case len(to.GPUs) > 0 && of.InstallsDriver() && !distro.IsKnown(system):
		return []string{templates.UnknownSystem(system).Error()}
	case len(to.GPUs) > 0 && of.NVIDIA.DriverMode == spec.DriverPrebuilt && !os.Prebuilt.IsSupported():
		return []string{fmt.Sprintf("its system is %s, whose archive has no driver that is built for its kernels: write nvidia.driver.mode: dkms", os.Title)}
	case len(to.GPUs) > 0 && templates.BuildsModules(of) && vm.SecureBoot:
		return []string{templates.SecureBootOn(vm.String())}
	}
	return nil
}
