package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// adoptable returns a node's VM that another owner has made, so that the differences can be shown
// and applied. The first of them are this cluster's tag and its mark. An unsuitable VM is refused
// with all the reasons, and not changed.
func (c *Cluster) adoptable(ctx context.Context, n spec.Node, want func(string) (proxmox.VMSpec, error)) (*proxmox.VM, error) {
	vm, err := c.Proxmox.Namesake(ctx, names.Tag(c.spec), n.Name)
	if err != nil {
		return nil, err
	}
	if vm == nil {
		return nil, converge.Permanent(fmt.Errorf("there is no VM %s to adopt: remove adopt: true, and cluster:up creates it, or rename the VM that you mean", n.Name))
	}
	spec, err := want("")
	if err != nil {
		return nil, err
	}
	if reasons := c.unfit(ctx, vm, spec); len(reasons) > 0 {
		return nil, converge.Permanent(fmt.Errorf("%s cannot be adopted, and is not changed:\n  %s", vm, strings.Join(reasons, "\n  ")))
	}
	return vm, nil
}

// unfit says why a VM cannot become a node without changes.
func (c *Cluster) unfit(ctx context.Context, vm *proxmox.VM, to proxmox.VMSpec) []string {
	var reasons []string
	for _, f := range to.Diff(vm) {
		if f.Effect == drift.Replace {
			reasons = append(reasons, f.String())
		}
	}
	for _, tag := range vm.Tags {
		if strings.HasPrefix(tag, names.TagPrefix) && tag != names.Tag(c.spec) && !names.IsMark(c.spec, tag) {
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
	release, err := c.Proxmox.AgentReadFile(ctx, vm, "/etc/os-release")
	switch {
	case errors.Is(err, proxmox.ErrAgentNotRunning), !vm.Agent:
		return []string{"its guest agent does not answer: install qemu-guest-agent in it, enable the agent in its options, and stop and start it"}
	case err != nil:
		return []string{"its system is not readable: " + printable.FirstLine(err.Error())}
	}
	os, known := distro.ByID(osID(string(release)))
	switch {
	case !known:
		return []string{fmt.Sprintf("its system is %q, and nodes run %s", osID(string(release)), strings.Join(distro.Names(), " or "))}
	case len(to.GPUs) > 0 && c.spec.NVIDIA.DriverMode == spec.DriverPrebuilt && !os.Prebuilt.There():
		return []string{fmt.Sprintf("its system is %s, whose archive has no driver that is built for its kernels: write nvidia.driver.mode: dkms", os.Title)}
	case len(to.GPUs) > 0 && templates.BuildsModules(c.spec) && vm.SecureBoot:
		return []string{templates.SecureBootOn(vm.String())}
	}
	return nil
}

// osID reads ID= from os-release(5).
func osID(text string) string {
	lines := strings.Split(text, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "ID=") })
	if i < 0 {
		return ""
	}
	return strings.Trim(strings.TrimPrefix(lines[i], "ID="), `"' `)
}
