package templates

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/placement"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/spec"
)

func SecureBootOn(machine string) string {
	return fmt.Sprintf("the firmware of %s has the keys of Secure Boot (efidisk0, pre-enrolled-keys=1), and rejects modules that are built on the machine, by DKMS or the GPU operator: "+
		"write nvidia: {driver: {mode: prebuilt}} if its system is Ubuntu, or disable Secure Boot in its firmware and give it an EFI disk without keys", machine)
}

// installed names the driver series that a machine has, so that it stays.
func installed(s nvidia.DriverState) string {
	branch, _, _ := strings.Cut(s.Loaded, ".")
	n, err := strconv.Atoi(branch)
	if err != nil {
		return ""
	}
	d := nvidia.Driver{Branch: n, Flavour: nvidia.Proprietary}
	if s.LoadedOpen {
		d.Flavour = nvidia.Open
	}
	return d.String()
}

// Driver chooses the driver for the cards that a host's nodes may get. It is the zero Driver if
// they get no cards, or if homelab does not install the driver. An installed series stays, unless
// the file names another.
func (ts *Templates) Driver(ctx context.Context, host string, seen nvidia.DriverState) (nvidia.Recipe, error) {
	s := ts.Spec
	if !InstallsDriver(s) {
		return nvidia.Recipe{}, nil
	}
	var ids []nvidia.PCIID
	for _, n := range s.GPUNodes() {
		if n.External || n.Host != host {
			continue
		}
		gpus, err := ts.Proxmox.GPUs(ctx, host)
		if err != nil {
			return nvidia.Recipe{}, err
		}
		for _, g := range gpus {
			if placement.Candidate(n, g) {
				id, err := nvidia.ParsePCIID(g.ID())
				if err != nil {
					return nvidia.Recipe{}, err
				}
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return nvidia.Recipe{}, nil
	}
	policy := DriverPolicy(s, installed(seen))
	if d, known := distro.ByID(seen.System); known { // an adopted node may have another distribution
		policy.System = d.Name
	}
	recipe := nvidia.Recipe{System: policy.System, Build: policy.Build}.For(seen)
	driver, _, err := nvidia.SelectDriverBranch(ids, policy)
	if recipe.Driver = driver; err == nil {
		return recipe, nil
	}
	// No driver supports all of them. Cards of other owners, and cards that no node gets, need no
	// driver.
	ids, failed := ts.allotted(ctx, host)
	if failed != nil || len(ids) == 0 {
		return nvidia.Recipe{}, converge.Permanent(err)
	}
	recipe.Driver, _, err = nvidia.SelectDriverBranch(ids, policy)
	return recipe, converge.Permanent(err)
}

// allotted are the ids of the cards that a host's nodes get.
func (ts *Templates) allotted(ctx context.Context, host string) ([]nvidia.PCIID, error) {
	deal, err := ts.Allot(ctx, host)
	if err != nil {
		return nil, err
	}
	var ids []nvidia.PCIID
	for _, share := range deal.Shares {
		for _, g := range share.Cards {
			id, err := nvidia.ParsePCIID(g.ID())
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// DriverPolicy is what the file says about the driver.
func DriverPolicy(s *spec.Spec, installed string) nvidia.Policy {
	p := nvidia.Policy{Installed: installed, System: s.Image.Distribution, Build: s.NVIDIA.DriverMode == spec.DriverDKMS}
	switch {
	case s.NVIDIA.Branch != "auto":
		p.Branch = s.NVIDIA.Branch
	case s.NVIDIA.DriverMode == spec.DriverOperator: // one for all nodes
		p.Branch = fmt.Sprint(nvidia.DefaultBranch)
	}
	if s.NVIDIA.Flavour != "auto" {
		p.Flavour = nvidia.Flavour(s.NVIDIA.Flavour)
	}
	return p
}

// BuildsModules reports whether the driver's modules are built on the machine, so that no firmware
// knows their signature.
func BuildsModules(s *spec.Spec) bool {
	return s.NVIDIA.DriverMode == spec.DriverDKMS || s.NVIDIA.DriverMode == spec.DriverOperator
}

// InstallsDriver reports whether homelab installs the driver on nodes.
func InstallsDriver(s *spec.Spec) bool {
	return s.NVIDIA.DriverMode == spec.DriverPrebuilt || s.NVIDIA.DriverMode == spec.DriverDKMS
}
