package templates

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

func SecureBootOn(machine string) string {
	return fmt.Sprintf("the firmware of %s has the keys of Secure Boot (efidisk0, pre-enrolled-keys=1), and rejects modules that are built on the machine, by DKMS or the GPU operator: "+
		"write nvidia: {driver: {mode: prebuilt}} if its system is Ubuntu, or disable Secure Boot in its firmware and give it an EFI disk without keys", machine)
}

// installedBranch names the driver series that a machine has, so that it stays.
func installedBranch(s nvidia.DriverState) string {
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

// Driver chooses the driver for the cards that a node may get. It is the zero Driver if no node of
// its host gets cards, or if homelab does not install the driver. An installed series stays, unless
// the file names another.
func (ts *Templates) Driver(ctx context.Context, n spec.Node, seen nvidia.DriverState) (nvidia.Recipe, error) {
	all, err := ts.drivers(ctx, n.Host, seen)
	if err != nil {
		return nvidia.Recipe{}, err
	}
	return all[n.Name].Recipe, all[n.Name].err
}

// driverChoice is a driver, or why there is none.
type driverChoice struct {
	nvidia.Recipe
	err error
}

// drivers chooses the driver of each machine of a host. Nodes have one in common if it supports
// every card that they may get, or else every card that they do get, so that one template serves
// all. Where cards are too different for that, each node has the driver of its own cards. A machine
// without cards has that of the first node with some: any template serves it.
func (ts *Templates) drivers(ctx context.Context, host string, seen nvidia.DriverState) (map[string]driverChoice, error) {
	s, out := ts.Spec, map[string]driverChoice{}
	nodes := slices.DeleteFunc(s.GPUNodes(), func(n spec.Node) bool { return !n.OnProxmox() || n.Host != host })
	if !s.InstallsDriver() || len(nodes) == 0 {
		return out, nil
	}
	gpus, err := ts.Proxmox.PCI.GPUs(ctx, host)
	if err != nil {
		return nil, err
	}
	common := ts.commonDriver(ctx, host, nodes, gpus, seen)
	for _, n := range nodes {
		c := common
		if c.err != nil {
			if c, err = ts.driverOf(ctx, n, gpus, seen, common.err); err != nil {
				return nil, err
			}
		}
		out[n.Name] = c
	}
	for _, n := range s.Machines() {
		if _, has := out[n.Name]; !has && n.FromTemplate() && n.Host == host {
			out[n.Name] = out[nodes[0].Name]
		}
	}
	return out, nil
}

// commonDriver chooses one driver for all nodes of a host.
func (ts *Templates) commonDriver(ctx context.Context, host string, nodes []spec.Node, gpus []pci.GPU,
	seen nvidia.DriverState) driverChoice {
	var may []pci.GPU
	for _, n := range nodes {
		may = append(may, candidates(n, gpus)...)
	}
	c := ts.choose(may, seen)
	if c.err == nil || len(may) == 0 {
		return c
	}
	// Cards of other owners, and cards that no node gets, need no driver.
	deal, err := ts.Allot(ctx, host)
	if err != nil {
		return c // the step of the cards reports it
	}
	var get []pci.GPU
	for _, n := range nodes {
		get = append(get, deal.Shares[n.Name].Cards...)
	}
	if len(get) == 0 {
		return c
	}
	return ts.choose(get, seen)
}

// driverOf chooses the driver of one node by its own cards. why is why there is none for all nodes.
func (ts *Templates) driverOf(ctx context.Context, n spec.Node, gpus []pci.GPU, seen nvidia.DriverState, why error) (driverChoice, error) {
	deal, err := ts.Allot(ctx, n.Host)
	if err != nil {
		return driverChoice{}, err
	}
	own := deal.Shares[n.Name].Cards
	for _, id := range n.GPUs.Mapping {
		if m := placement.Mapping(deal.Mappings, id); m != nil {
			at := placement.Addresses(m, n.Host)
			own = append(own, slices.DeleteFunc(slices.Clone(gpus), func(g pci.GPU) bool { return !slices.Contains(at, g.Address.Whole().String()) })...)
		}
	}
	if may := candidates(n, gpus); len(n.GPUs.Mapping) == 0 {
		if c := ts.choose(may, seen); c.err == nil && len(may) > 0 {
			return c, nil
		}
	}
	if len(own) == 0 {
		return driverChoice{err: why}, nil
	}
	return ts.choose(own, seen), nil
}

// candidates are the cards that a node may get.
func candidates(n spec.Node, gpus []pci.GPU) []pci.GPU {
	return slices.DeleteFunc(slices.Clone(gpus), func(g pci.GPU) bool { return !placement.Candidate(n, g) })
}

// choose chooses a driver for cards.
func (ts *Templates) choose(gpus []pci.GPU, seen nvidia.DriverState) driverChoice {
	var ids []nvidia.PCIID
	for _, g := range gpus {
		id, err := nvidia.ParsePCIID(g.ID())
		if err != nil {
			return driverChoice{err: err}
		}
		ids = append(ids, id)
	}
	recipe, err := ts.DriverOf(ids, seen)
	return driverChoice{recipe, err}
}

// DriverOf chooses a driver for a machine with these cards; without any it is the zero Recipe.
func (ts *Templates) DriverOf(cards []nvidia.PCIID, seen nvidia.DriverState) (nvidia.Recipe, error) {
	if len(cards) == 0 || !ts.Spec.InstallsDriver() {
		return nvidia.Recipe{}, nil
	}
	policy := DriverPolicy(ts.Spec, installedBranch(seen))
	if seen.System != "" { // an adopted node, or one of a template of the user's, may have another
		policy.System = seen.System
	}
	if !distro.IsKnown(policy.System) {
		return nvidia.Recipe{}, converge.Permanent(UnknownSystem(policy.System))
	}
	recipe := nvidia.Recipe{System: policy.System, Build: policy.Build}.ForMachine(seen)
	var err error
	recipe.Driver, _, err = nvidia.SelectDriverBranch(cards, policy)
	return recipe, converge.Permanent(err)
}

// UnknownSystem is the error for a system for which homelab has no driver.
func UnknownSystem(system string) error {
	return fmt.Errorf("its system is %s, and homelab installs NVIDIA's driver on %s: install one there, and write nvidia: {driver: {mode: none}}",
		system, strings.Join(distro.Names(), " and "))
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
