package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/session/results"
)

// GPUList prints every card of every host, or of the one of -host, and its owner. With -ssh it also asks
// the hosts for what Proxmox's API does not show: NUMA node and driver.
func GPUList(s *Session, ctx context.Context, f HostFlags) error {
	if _, err := s.hostsOf(f); err != nil {
		return err
	}
	gpus, err := s.Cluster.GPUs(ctx)
	if err != nil {
		return err
	}
	if f.Host != "" {
		gpus = slices.DeleteFunc(gpus, func(g cluster.GPUInfo) bool { return g.Host != f.Host })
	}
	if f.SSH != "" {
		if err := observeOverSSH(s, ctx, f, gpus); err != nil {
			return err
		}
	}
	if s.JSON {
		return console.Objects(s.Console, gpus)
	}
	t := console.Table{Header: []string{"HOST", "ADDRESS", "MODEL", "ID", "GROUP", "NUMA", "DRIVER", "MAPPING", "OWNER", ""}}
	for _, g := range gpus {
		t.Add(g.Host, strings.TrimSuffix(g.Address, ".0"), model(g), g.ID, group(g), numa(g), cmp.Or(g.Driver, "-"), dash(g.Mappings), owner(g), mark(g))
	}
	s.Table(t)
	return nil
}

// model is a card's, with the parts into which its host has divided it.
func model(g cluster.GPUInfo) string {
	if n := len(g.Virtual); n > 0 {
		return fmt.Sprintf("%s (%s)", g.Model, printable.Count(n, "virtual function"))
	}
	return g.Model
}

func group(g cluster.GPUInfo) string {
	if g.IOMMUGroup < 0 {
		return "-"
	}
	return fmt.Sprint(g.IOMMUGroup)
}

func numa(g cluster.GPUInfo) string {
	if g.NUMANode == nil {
		return "-"
	}
	return fmt.Sprint(*g.NUMANode)
}

// owner names the VM or container that has a card, or for which it is reserved.
func owner(g cluster.GPUInfo) string {
	var all []string
	for _, o := range g.Owners {
		all = append(all, o.String())
	}
	switch {
	case len(all) > 0:
		return strings.Join(all, "; ")
	case g.Node != "":
		return "for " + g.Node
	}
	return g.State
}

// mark returns a remark about a card that needs attention.
func mark(g cluster.GPUInfo) string {
	if g.State == cluster.GPUConflict {
		return "ASSIGNED TWICE:  " + g.Problem
	}
	return g.Problem
}

// observeOverSSH asks a host over SSH for the drivers and NUMA nodes of its cards.
func observeOverSSH(s *Session, ctx context.Context, f HostFlags, gpus []cluster.GPUInfo) error {
	hosts, err := s.hostsOf(f)
	if err != nil {
		return err
	}
	if len(hosts) > 1 {
		return exitErrorf(invalid, "-ssh reaches one host only: add -host=%s, or another of them", hosts[0].Name)
	}
	runner, done, err := s.HostRunner(ctx, f, hosts[0].Name)
	if err != nil {
		return err
	}
	defer done()
	state, err := hostprep.Observe(ctx, runner)
	if err != nil {
		return err
	}
	for i := range gpus {
		for _, d := range state.Devices {
			if gpus[i].Host == hosts[0].Name && gpus[i].Address == d.Address.String() {
				gpus[i].Driver = cmp.Or(d.Driver, gpus[i].Driver)
				if d.NUMANode >= 0 {
					gpus[i].NUMANode = &d.NUMANode
				}
			}
		}
	}
	return nil
}

// GPUVerify computes on every GPU of every node, does the checks of the level, and prints the
// results.
func GPUVerify(s *Session, ctx context.Context, f GPUVerifyFlags) error {
	start := time.Now()
	level, err := f.level()
	if err != nil {
		return err
	}
	graph, verification := s.Cluster.GPUVerify(level, f.Burn)
	talk := *s.Console
	talk.JSON = false // the data of this command are results, not events
	_, runErr := run(ctx, &talk, graph, Change{})
	gpus := verification.Results()
	found := results.New(string(level), s.Spec.IsLab(), gpus, verification.Checks())
	if err := found.Remember(s.History()); err != nil {
		s.Printf("warning: these results cannot be compared with later ones: %s", err)
	}
	if err := found.Print(s.Console); err != nil {
		return err
	}
	if err := found.JUnit(s.Console, f.JUnit, s.Spec.Name); err != nil {
		return err
	}
	// The Jobs are also removed after an interruption.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := verification.Clean(clean); err != nil {
		s.Printf("warning: the verification's jobs could not be removed: %s", err)
	}
	if runErr != nil {
		return runErr
	}
	all, what := 0, "GPUs"
	for _, n := range s.Spec.GPUNodes() {
		offers := offer.GPUsOf(n)
		if offers.MIG == "" {
			all += offers.Cards // if GPUs are shared, one of them counts for its node
			continue
		}
		what = "GPUs and instances of GPUs"
		for _, count := range offers.Resources {
			all += count
		}
	}
	if held := found.UntestedNodes(); len(held) > 0 {
		return exitErrorf(pending, "%d of %d %s computed (%s); others are in use on %s", len(gpus), all, what, timeSince(start), strings.Join(held, ", "))
	}
	s.Printf("%d of %d %s computed (%s).", len(gpus), all, what, timeSince(start))
	return nil
}

func dash(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ", ")
}

// level returns the requested level.
func (f GPUVerifyFlags) level() (cluster.VerifyLevel, error) {
	switch l := cmp.Or(cluster.VerifyLevel(f.Level), cluster.VerifyQuick); {
	case f.Burn != 0 && (l != cluster.VerifyBurn || f.Burn < time.Second):
		return "", exitErrorf(invalid, "-burn=%s is the time of -level=burn: write both, and a second or more", f.Burn)
	case slices.Contains([]cluster.VerifyLevel{cluster.VerifyQuick, cluster.VerifyFull, cluster.VerifyBurn}, l):
		return l, nil
	}
	return "", exitErrorf(invalid, "-level=%s: write quick, full or burn", f.Level)
}
