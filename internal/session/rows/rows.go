// Package rows turns what a command has read into rows of its table.
package rows

import (
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/inventory"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/history"
)

// Machines returns the machines of an inventory for cluster:status.
func Machines(inv *inventory.Inventory) map[string]console.Machine {
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
	return out
}

// Remember appends results of gpu:verify to a history, and returns how each differs from
// earlier ones, also if it cannot be written.
func Remember(file string, results []cluster.GPUResult) ([]string, error) {
	past, _, err := history.Read(file)
	now, remarks := time.Now(), make([]string, len(results))
	var records []history.Record
	for i, r := range results {
		record := history.Record{
			Time: now, Node: r.Node, Index: r.Index, UUID: r.UUID, Model: r.Name, Driver: r.Driver, Memory: r.Memory,
			Passed: r.Passed, Detail: r.Detail, Note: r.Note,
		}
		worse, other := history.Compare(past, record)
		remarks[i] = strings.Join(append(worse, other...), "; ")
		records = append(records, record)
	}
	if err != nil {
		return remarks, err
	}
	return remarks, history.Add(file, records...)
}
