package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// Down removes everything that Up created, and nothing else: VMs with the cluster's tag and a
// mark of their own (VMs with only the tag stay; [Cluster.Strays] lists them), then templates,
// ISOs, the image and mappings, then the files of the cluster on this machine. It first lists
// all machines, so that every machine to be destroyed has a step of its own that can be shown
// and confirmed. Machines that hold data (see Keeps) stay, with what they need, unless also
// names them.
func (c *Cluster) Down(ctx context.Context, also ...string) (*converge.Graph, error) {
	f := c.site.flow()
	return run.Retry(ctx, f.spec, func(ctx context.Context) (*converge.Graph, error) { return f.downGraph(ctx, also...) })
}

func (c *flow) downGraph(ctx context.Context, also ...string) (*converge.Graph, error) {
	down := c.members.Graph()
	stay, err := c.keptMachines(ctx, also)
	if err != nil {
		return nil, err
	}
	gone, err := c.source().destroy(ctx, down, stay)
	if err != nil {
		return nil, err
	}
	for _, n := range c.spec.Nodes {
		if n.External {
			gone = append(gone, down.Add(c.releaseStep(n)))
		}
	}
	down.Add(c.filesStep(), gone...)
	return down, nil
}

// destroyStep destroys one machine. If others have the same name, and all of them go, the
// step's name says which one it is.
func (c *holdings) destroyStep(seen proxmox.Summary, duplicate bool) *converge.Resource[*proxmox.VM] {
	id := "vm/" + seen.Name
	if duplicate || seen.Name == "" {
		id += "@" + strconv.Itoa(seen.VMID)
	}
	return &converge.Resource[*proxmox.VM]{
		ID: id,
		Observe: func(ctx context.Context) (*proxmox.VM, error) {
			vm, err := c.Proxmox.VMs.GetFromSummary(ctx, names.Tag(c.spec), seen)
			return vm, cmp.Or(err, c.protectedError(vm))
		},
		Diff: func(vm *proxmox.VM) converge.Diff {
			if vm == nil {
				return nil
			}
			return converge.DiffUnwanted(fmt.Sprintf("VM %d on %s", vm.VMID, vm.Host))
		},
		Costs: c.costsOfMachine(seen.Name, ""),
		Apply: c.seeds.DestroyVM,
	}
}

// filesStep removes the files that Up wrote on this machine. The login key stays: it belongs to
// the user, and the next cluster uses it. The host keys of external machines stay too.
func (c *holdings) filesStep() *converge.Resource[[]string] {
	return &converge.Resource[[]string]{
		ID: "files",
		Observe: func(context.Context) ([]string, error) {
			var have []string
			paths := []string{c.kubeconfig()}
			if !slices.ContainsFunc(c.spec.Nodes, func(n spec.Node) bool { return n.External }) {
				paths = append(paths, c.hosts.Path())
			}
			for _, path := range paths {
				if _, err := os.Stat(path); err == nil {
					have = append(have, path)
				} else if !errors.Is(err, fs.ErrNotExist) {
					return nil, err
				}
			}
			return have, nil
		},
		Diff: func(have []string) converge.Diff {
			var d converge.Diff
			for _, path := range have {
				d = append(d, converge.DiffUnwanted(path)...)
			}
			return d
		},
		Apply: func(_ context.Context, have []string) error {
			for _, path := range have {
				if err := os.Remove(path); err != nil {
					return err
				}
			}
			c.hosts.Discard()
			return nil
		},
	}
}

// costsOfMachine is what is lost with one machine.
func (c *site) costsOfMachine(name, why string) func(context.Context, *proxmox.VM, converge.Diff) []converge.Cost {
	return func(ctx context.Context, vm *proxmox.VM, _ converge.Diff) []converge.Cost {
		return []converge.Cost{c.destroys(ctx, name, why, vm, nil)}
	}
}
