package cluster

import (
	"context"
	"slices"

	"github.com/cps-gpu/homelab/cluster/internal/artifacts"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// mayChange returns what must hold before a run changes anything: the kubeconfig can be
// written, the files of k3s.airgap are whole, and Kubernetes supports the step to the file's
// version from that of every node. again are nodes whose machines the run makes again.
func (c *Cluster) mayChange(again ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := c.members.CanKeep(ctx); err != nil {
			return err
		}
		if err := artifacts.CheckSums(ctx, c.spec); err != nil {
			return err
		}
		if up, err := c.serverUp(ctx); err != nil || !up {
			return err
		}
		return c.members.CheckVersions(ctx, again...)
	}
}

// serverUp reports whether the machine of some server runs, as far as the hosts show it: others
// need not be asked for their version.
func (c *Cluster) serverUp(ctx context.Context) (bool, error) {
	var vms []proxmox.Summary
	if c.Proxmox != nil {
		var err error
		if vms, err = c.Proxmox.VMs(ctx, names.Tag(c.spec)); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(c.spec.Servers(), func(n spec.Node) bool {
		return n.External || slices.ContainsFunc(vms, func(vm proxmox.Summary) bool { return vm.Name == n.Name && vm.Running })
	}), nil
}

// UpgradeSnapshot returns the snapshot of etcd that [Cluster.Up] saved before it upgraded the
// first server, and on which server it is; empty if it saved none.
func (c *Cluster) UpgradeSnapshot() (name, server string) { return c.members.Saved() }
