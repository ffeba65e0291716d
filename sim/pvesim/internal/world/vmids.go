package world

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// FreeID is the first VMID that nobody has.
func (s *State) FreeID() int {
	id, upper := s.IDRange()
	for s.VMIDConflict(id) != "" && id < upper {
		id++
	}
	return id
}

// VMIDConflict says what has a VMID, in the words of PVE/Cluster.pm (check_vmid_unused), or nothing.
func (s *State) VMIDConflict(id int) string {
	if v := s.VMs[id]; v != nil {
		return fmt.Sprintf("VM %d already exists on node '%s'", id, v.Node)
	}
	if ct, there := s.Containers[id]; there {
		return fmt.Sprintf("CT %d already exists on node '%s'", id, ct.Node)
	}
	return ""
}

// setIDRange puts a model's range of VMIDs into datacenter.cfg.
func (s *State) setIDRange(r model.IDRange) {
	var parts []string
	if r.Lower != 0 {
		parts = append(parts, "lower="+strconv.Itoa(r.Lower))
	}
	if r.Upper != 0 {
		parts = append(parts, "upper="+strconv.Itoa(r.Upper))
	}
	if parts != nil {
		s.Datacenter = map[string]string{"next-id": strings.Join(parts, ",")}
	}
}

// IDRange is what /cluster/nextid may give out (datacenter.cfg, next-id).
func (s *State) IDRange() (lower, upper int) { return IDRangeOf(s.Datacenter["next-id"]) }

// IDRangeOf reads the option next-id.
func IDRangeOf(option string) (lower, upper int) {
	lower, upper = 100, 1000000
	for part := range strings.SplitSeq(option, ",") {
		switch k, v, _ := strings.Cut(part, "="); k {
		case "lower":
			lower = schema.Atoi(v)
		case "upper":
			upper = schema.Atoi(v)
		}
	}
	return lower, upper
}

// VMsByID returns the VMs by ID.
func (s *State) VMsByID() []*VM {
	out := slices.Collect(maps.Values(s.VMs))
	slices.SortFunc(out, func(a, b *VM) int { return a.ID - b.ID })
	return out
}
