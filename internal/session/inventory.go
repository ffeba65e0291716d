package session

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/inventory"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/spec"
)

// readTime limits how long to ask for what a status shows beside its plan.
const readTime = 20 * time.Second

// Inventory reads the machines of the cluster. It does not ask Kubernetes if plan, which may be
// nil, says that no server exists yet.
func (s *Session) Inventory(ctx context.Context, plan *converge.Plan) *inventory.Inventory {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	config := inventory.Config{Spec: s.Spec, Kube: s.Cluster.Kube}
	if pve := s.Cluster.Proxmox; pve != nil {
		config.VMs = func(ctx context.Context) ([]proxmox.Summary, error) { return pve.VMs(ctx, names.Tag(s.Spec)) }
	}
	if plan != nil && !slices.ContainsFunc(plan.Items, func(it converge.Item) bool {
		name, k3s := strings.CutPrefix(it.Step, "k3s/")
		n, _ := s.Spec.Node(name)
		return k3s && n.Role == spec.Server && it.Verdict != converge.Deferred
	}) {
		config.Kube = nil
	}
	return inventory.Read(ctx, config)
}

// machines returns the machines for the display.
func (s *Session) machines(inv *inventory.Inventory) map[string]console.Machine {
	out := map[string]console.Machine{}
	for _, m := range inv.Machines {
		x := console.Machine{Role: string(m.Role), Version: m.Version, Holders: m.GPUs.By()}
		if m.Address.IsValid() {
			x.Address = m.Address.String()
		}
		if m.VMID > 0 {
			x.VMID = fmt.Sprint(m.VMID)
		}
		if !m.Created.IsZero() {
			x.Age = console.Age(inv.Time.Sub(m.Created))
		}
		if m.GPUs.Total > 0 {
			x.GPUs = fmt.Sprintf("%d/%d", m.GPUs.Used, m.GPUs.Total)
		}
		out[m.Name] = x
	}
	if inv.Kube != nil {
		s.Say("warning: ages of nodes and who holds GPUs are not known: %s", inv.Kube)
	}
	return out
}

// History is the file with the results of gpu:verify.
func (s *Session) History() string { return filepath.Join(s.Cluster.Dir, history.File) }

// remember appends results to the history, and returns how each differs from earlier ones.
func (s *Session) remember(results []cluster.GPUResult) []string {
	past, _, err := history.Read(s.History())
	now, remarks := time.Now(), make([]string, len(results))
	var records []history.Record
	for i, r := range results {
		rec := history.Record{Time: now, Node: r.Node, Index: r.Index, UUID: r.UUID, Model: r.Name, Driver: r.Driver, Memory: r.Memory, Passed: r.Passed, Detail: r.Detail, Note: r.Note}
		worse, other := history.Compare(past, rec)
		remarks[i] = strings.Join(append(worse, other...), "; ")
		records = append(records, rec)
	}
	if err == nil {
		err = history.Add(s.History(), records...)
	}
	if err != nil {
		s.Say("warning: these results cannot be compared with later ones: %s", err)
	}
	return remarks
}
