package members

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/apt"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/remote"
)

// System is a machine's packages, and what an upgrade would make of them.
type System struct {
	nvidia.DriverState
	apt.Upgrade
	Want         nvidia.Recipe
	Managed      bool     // its driver is ours
	HeldTogether []string // packages on hold that change with an upgrade, because they change together
	Node         *kube.Node
	reported     bool // its kubelet has reported since the machine's boot
}

// withChanges is the driver's state once the packages are there.
func (s System) withChanges() nvidia.DriverState {
	after := s.DriverState
	after.Packages = maps.Clone(after.Packages)
	for _, c := range s.Changes {
		after.Packages[c.Name] = c.To
	}
	return after
}

// ObserveSystem looks at a machine's packages. driver chooses the driver of a node.
func (ms *Members) ObserveSystem(ctx context.Context, n spec.Node, driver func(context.Context, spec.Node, nvidia.DriverState) (nvidia.Recipe, error)) (s System, err error) {
	root := nodes.WithProxy(ms.Spec, ms.Nodes.Root(n.Name))
	if s.DriverState, err = nvidia.ObserveDriver(ctx, root); err != nil {
		return s, err
	}
	s.Managed = ms.HasDriver(n)
	if s.Want, err = driver(ctx, n, s.DriverState); err != nil && s.Managed {
		return s, err
	}
	if s.Managed || err == nil && slices.Contains(s.Held, nvidia.ToolkitPackage) { // machines without GPUs have their neighbours' template
		s.HeldTogether = slices.DeleteFunc(s.Want.HoldsOn(s.DriverState), func(name string) bool { return s.Packages[name] == "" })
	}
	if s.Upgrade, err = apt.Look(ctx, root, s.HeldTogether); err != nil {
		return s, fmt.Errorf("%s: %w", n.Name, err)
	}
	if s.Node, err = ms.ObserveNode(ctx, n.Name); err != nil && !errors.Is(err, ErrUnformed) {
		return s, err
	}
	boot, err := remote.Output(ctx, root, "cat", "/proc/sys/kernel/random/boot_id")
	if err != nil {
		return s, err
	}
	s.reported = s.Node == nil || s.Node.Ready && s.Node.BootID == strings.TrimSpace(string(boot))
	return s, converge.Permanent(s.refuse(n))
}

// refuse says why a machine is not upgraded now.
func (s System) refuse(n spec.Node) error {
	if !s.Managed || len(s.Unfinished) > 0 {
		return nil
	}
	other := slices.DeleteFunc(s.Want.DiffPackages(s.DriverState), func(f converge.Field) bool {
		return strings.HasPrefix(f.Path, "hold/") || strings.HasPrefix(f.Path, nvidia.ModulePath)
	})
	if !other.Empty() {
		return errors.New(n.Name + ": its driver is not that of the file (" + other.String() + "): homelab cluster:up installs it")
	}
	if kernel := s.Want.KernelWithoutModules(s.withChanges()); kernel != "" && !s.Want.Build {
		return errors.New(n.Name + ": the archive has no modules of driver " + s.Want.String() + " for kernel " + kernel + " yet, so nothing is upgraded: try again in a few days")
	}
	return nil
}

// TakesDown reports whether a node is drained for an upgrade.
func (s System) TakesDown() bool {
	return len(s.Changes)+len(s.Unfinished) > 0 || s.Restarts()
}

// Restarts reports whether a restart is missing: for another kernel or driver, or because a package has
// asked for one.
func (s System) Restarts() bool {
	return s.Restart || s.NextKernel() != s.Kernel || s.Managed && (s.Loaded != "" || len(s.Log) == 0) && s.Want.Diff(s.DriverState).Effect() == converge.Restart
}

// Reason says what a node goes down for.
func (s System) Reason() string {
	text := fmt.Sprintf("%d packages are upgraded", len(s.Changes))
	if kernel := s.withChanges().NextKernel(); kernel != s.Kernel {
		text += ", kernel " + s.Kernel + " → " + kernel
	}
	return text
}

// shown is how many packages a plan names.
const shown = 6

// Diff says what an upgrade changes.
func (s System) Diff() converge.Diff {
	d := converge.Compare("kernel", s.Kernel, s.withChanges().NextKernel(), converge.Restart)
	var all []string
	for _, c := range s.Changes {
		all = append(all, strings.TrimSpace(c.Name+" "+c.To))
	}
	if more := len(all) - shown; more > 0 {
		all = append(all[:shown], fmt.Sprintf("and %d more", more))
	}
	if len(all) > 0 {
		d = append(d, converge.Field{Path: "packages", Have: fmt.Sprintf("%d old or missing", len(s.Changes)), Want: "newest", Note: strings.Join(all, ", ")})
	}
	if len(s.Unfinished) > 0 {
		d = append(d, converge.Field{Path: "dpkg", Have: "interrupted", Want: "finished", Note: strings.Join(s.Unfinished, ", ")})
	}
	if d.Effect() != converge.Restart && s.Restarts() {
		d = append(d, converge.Field{Path: "restart", Have: "pending", Want: "done", Effect: converge.Restart})
	}
	if s.Managed {
		d = append(d, s.Want.DiffPackages(s.DriverState)...)
	}
	if !s.reported {
		d = append(d, converge.Field{Path: "status", Have: strings.TrimSuffix("not ready: "+s.Node.Reason, ": "), Want: "Ready"})
	}
	if s.Node != nil && s.Node.Cordoned {
		d = append(d, converge.Field{Path: "scheduling", Have: "cordoned", Want: "allowed"})
	}
	return d
}
