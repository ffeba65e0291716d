package running

import (
	"strconv"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// haRound is how long the HA manager takes to do what is wanted of it: its rounds take ten seconds
// (PVE/HA/CRM.pm, LRM.pm).
const haRound = 10 * time.Second

// haEntry returns what HA has of a VM; nil: it does not manage it, or ignores it (PVE/HA/Config.pm,
// vm_is_ha_managed).
func haEntry(s *world.State, vmid int) map[string][]string {
	ha := s.Entries(world.Register{Path: "/cluster/ha/resources"})["vm:"+strconv.Itoa(vmid)]
	if state := ha["state"]; len(state) > 0 && state[0] == "ignored" {
		return nil
	}
	return ha
}

// power starts a task that changes whether a VM runs. For one that HA manages the task only notes
// what is wanted, and a task of root's does it later.
func power(c *world.Call, kind string, vmid int, state string, work func(world.Worker) error) (any, error) {
	ha, id, node := haEntry(c.State, vmid), strconv.Itoa(vmid), c.Param("node")
	if ha == nil {
		return c.StartTask(kind, id, work)
	}
	note := map[string]string{"started": "hastart", "stopped": "hastop"}[state]
	return c.StartTask(note, id, func(w world.Worker) error {
		w.Log("Requesting HA %s for VM %s", note[2:], id)
		ha["state"] = []string{state}
		w.State.Spawn(func() {
			if w.State.Wait(haRound, nil) == nil {
				w.State.Work(w.State.NewTask(node, kind, id, world.Identity{ID: "root@pam"}), nil, work)
			}
		})
		return nil
	})
}
