package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/proxmox"
)

// isoContent is what Proxmox calls a volume that may be put into a CD drive.
const isoContent = "iso"

// seeded is what there is of a node's first boot.
type seeded struct {
	there bool // its ISO, or a machine that needs none
	lives bool // its VM, which was made by another
}

// seedStep uploads what a node is told at first boot.
func (c *Cluster) seedStep(n Node) *converge.Resource[seeded] {
	storage := c.spec.Image.SeedStorage
	return &converge.Resource[seeded]{
		ID: "seed/" + n.Name,
		Observe: func(ctx context.Context) (seeded, error) {
			sd, err := c.seed(n)
			if err != nil {
				return seeded{}, err
			}
			if other, err := c.bornOtherwise(ctx, n, sd.file); err != nil || other {
				return seeded{there: other}, err
			}
			volumes, err := c.Proxmox.Volumes(ctx, n.Host, storage, "")
			if err != nil || slices.ContainsFunc(volumes, func(v proxmox.Volume) bool { return v.Name() == sd.file }) {
				return seeded{there: err == nil}, err
			}
			vm, err := c.Proxmox.VM(ctx, c.spec.tag(), n.Name)
			return seeded{lives: vm != nil && !vm.Unfinished}, err
		},
		Diff: func(s seeded) drift.Diff {
			switch {
			case s.there:
				return nil
			case s.lives: // what becomes of the VM can be looked at, and is for its own step to say
				return drift.Diff{{Want: "another first-boot ISO on " + storage, Effect: drift.Update}}
			}
			return drift.Diff{{Want: "first-boot ISO on " + storage, Effect: drift.Create, Note: c.spec.placed[n.Name]}}
		},
		Apply: func(ctx context.Context, _ seeded) error {
			sd, err := c.seed(n)
			if err != nil {
				return err
			}
			iso, err := sd.iso()
			if err != nil {
				return err
			}
			_, err = c.Proxmox.Upload(ctx, n.Host, storage, sd.file, iso)
			return err
		},
	}
}

// vmStep makes a node's VM and keeps it in shape.
func (c *Cluster) vmStep(n Node) *converge.Resource[*proxmox.VM] {
	// What a VM was cloned from does not show in it, so a look needs no template.
	want := func(template string) (proxmox.VMSpec, error) {
		sd, err := c.seed(n)
		return c.vm(n, template, sd.file), err
	}
	return &converge.Resource[*proxmox.VM]{
		ID: "vm/" + n.Name,
		Observe: func(ctx context.Context) (*proxmox.VM, error) {
			vm, err := c.Proxmox.VM(ctx, c.spec.tag(), n.Name)
			if err == nil && vm == nil && n.Adopt {
				return c.adoptable(ctx, n, want)
			}
			if err == nil && vm == nil {
				c.met(ctx, n.Name).absent.Store(true)
			}
			return vm, err
		},
		Diff: func(vm *proxmox.VM) drift.Diff {
			spec, err := want("")
			if err != nil {
				return drift.Missing(err.Error())
			}
			return asBorn(n, spec, vm).Diff(vm)
		},
		Apply: func(ctx context.Context, vm *proxmox.VM) error {
			spec, err := want("")
			if err != nil {
				return err
			}
			spec = asBorn(n, spec, vm)
			if !n.Adopt {
				if spec, err = c.cloned(ctx, n, spec, vm); err != nil {
					return err
				}
			}
			return c.shape(ctx, n, spec, vm)
		},
		Settle: 2 * time.Minute,
	}
}

// shape brings a VM to its spec. One that must stop for that is drained first, and
// only one at a time is down.
func (c *Cluster) shape(ctx context.Context, n Node, spec proxmox.VMSpec, vm *proxmox.VM) error {
	switch diff := spec.Diff(vm); {
	case vm == nil:
		// Whatever was known of a machine of this name is of another one.
		if err := c.hosts.Store(c.guests[n.Name].addr); err != nil {
			return err
		}
	case diff.Effect() == drift.Replace && n.Role == FileServer:
		return converge.Permanent(fmt.Errorf("%s cannot become what the file asks while it lives: %s\n"+
			"  it holds data, so nothing makes it anew: write in the file what it was, or move its data by hand", n.Name, replaced(diff)))
	case diff.Effect() == drift.Replace:
		return converge.Permanent(fmt.Errorf("%s cannot become what the file asks while it lives: %s\n"+
			"  go tool mage node:replace -node=%s makes it anew: drained, destroyed with its disks, cloned, let in again", n.Name, replaced(diff), n.Name))
	case diff.Effect() == drift.Restart && vm.Running:
		return c.takeDown(ctx, n, func(ctx context.Context) error {
			if err := c.letGo(ctx, n, diff, vm); err != nil {
				return err
			}
			return c.Proxmox.Shape(ctx, spec, vm)
		})
	case vm.Running:
		if err := c.letGo(ctx, n, diff, vm); err != nil {
			return err
		}
	}
	return c.Proxmox.Shape(ctx, spec, vm)
}

// replaced keeps of a diff what calls for a replacement.
func replaced(d drift.Diff) drift.Diff {
	return slices.DeleteFunc(slices.Clone(d), func(f drift.Field) bool { return f.Effect != drift.Replace })
}
