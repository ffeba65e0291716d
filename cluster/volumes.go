package cluster

import (
	"context"
	"errors"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
)

// volumesChecked returns the check of the existing volumes that nodes ask for; nil: none does.
func (c *holdings) volumesChecked() func(ctx context.Context, host string) error {
	existing := func(n spec.Node) bool {
		return slices.ContainsFunc(n.Disks, func(d spec.Disk) bool { return d.Volume != "" })
	}
	if !slices.ContainsFunc(c.spec.Machines(), existing) {
		return nil
	}
	return func(ctx context.Context, host string) error {
		var errs []error
		for _, n := range c.spec.Machines() {
			if !n.OnProxmox() || n.Host != host || !existing(n) {
				continue
			}
			vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
			if err != nil {
				return err
			}
			// Another machine of the cluster may be about to give it up. If it is not, the VM's own step says so.
			problems, err := c.Proxmox.Storages.VolumeProblems(ctx, c.vm(n, "", ""), vm, names.Tag(c.spec))
			if err != nil {
				return err
			}
			errs = append(errs, problems...)
		}
		return errors.Join(errs...)
	}
}
