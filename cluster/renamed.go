package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// Machines of earlier versions have no marks; only the names in the file identify them. If the
// file renames a machine before the first up with this version, the file no longer identifies
// it. The checks that protect data and the cluster itself see only identified machines.

// unknown are machines without a mark that an earlier version seems to have made for this cluster
// under names that are not in the file. The evidence is the tag of machines that keep data, or
// the MAC address that follows from the names of cluster and machine. A backup that was restored
// for inspection looks the same.
func (c *Cluster) unknown(ctx context.Context) ([]proxmox.Stray, error) {
	all, err := c.Proxmox.Strays(ctx, names.Tag(c.spec))
	return slices.DeleteFunc(all, func(s proxmox.Stray) bool {
		return s.Template || !s.Unmarked(names.Tag(c.spec)) || c.spec.HasMachine(s.Name) || !c.recognises(s) && !slices.Contains(s.Tags, spec.KeepsData)
	}), err
}

// recognises reports whether a stray would count as the cluster's own if the file named it.
func (c *Cluster) recognises(s proxmox.Stray) bool {
	address := spec.StableMAC(c.spec.Name, s.Name).String()
	return s.Unmarked(names.Tag(c.spec)) && proxmox.HasMAC(s.NICs, address)
}

// checkRenamed refuses to create duplicates of an earlier version's machines that the file does
// not name: an empty second NFS server, or a second cluster.
func (c *Cluster) checkRenamed(ctx context.Context) error {
	all, err := c.unknown(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	vms, err := c.Proxmox.VMs(ctx, names.Tag(c.spec))
	if err != nil {
		return err
	}
	there := func(name string) bool {
		return slices.ContainsFunc(vms, func(vm proxmox.Summary) bool { return vm.Name == name })
	}
	nfs := c.spec.Platform.Storage.NFS
	for _, s := range all {
		switch {
		case nfs == nil || nfs.VM == nil || !slices.Contains(s.Tags, spec.KeepsData) || there(nfs.VM.Name):
		case !c.recognises(s):
			return converge.Permanent(fmt.Errorf("%s has the tags of this cluster's NFS server, but neither a mark nor the address that an earlier version "+
				"gave a server of that name: it is a copy, so homelab does not use it, and %s would start empty next to it\n"+
				"  if that is right, as root on %s: %s; its data stays on it, so that you can copy it", templates.Words(s.Summary), nfs.VM.Name, s.Host, s.Untag(names.Tag(c.spec))))
		default:
			return converge.Permanent(fmt.Errorf("%s keeps data of this cluster, and an earlier version created it without a mark, "+
				"and %s would start empty instead: write name: %s under storage.nfs.vm for the next cluster:up, which marks it\n"+
				"  if its data is no longer needed, as root on %s: %s", templates.Words(s.Summary), nfs.VM.Name, s.Name, s.Host, s.Untag(names.Tag(c.spec))))
		}
	}
	all = slices.DeleteFunc(all, func(s proxmox.Stray) bool { return !c.recognises(s) }) // a copy alone is not a cluster
	if len(all) == 0 || serverAmong(c.spec, vms) {
		return nil
	}
	var who, commands []string
	for _, s := range all {
		who = append(who, templates.Words(s.Summary))
		commands = append(commands, fmt.Sprintf("\n  on %s: %s", s.Host, s.Untag(names.Tag(c.spec))))
	}
	return converge.Permanent(fmt.Errorf("none of the file's servers exists, but an earlier version, which gave no marks, "+
		"created machines for this cluster under other names: %s; a second cluster would be created next to them\n"+
		"  write those names in the file for one cluster:up, which marks them, or for cluster:down; then rename servers one at a time\n"+
		"  to remove the tag from a machine that no longer belongs to the cluster, such as a restored backup, as root:%s",
		strings.Join(who, ", "), strings.Join(commands, "")))
}
