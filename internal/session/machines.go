package session

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
)

// Machines returns the machines of an inventory for cluster:status.
func Machines(inv *cluster.Inventory) map[string]console.Machine {
	out := map[string]console.Machine{}
	for _, m := range inv.Machines {
		x := console.Machine{Role: string(m.Role), Version: m.Version, Holders: m.GPUs.HoldersText()}
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
