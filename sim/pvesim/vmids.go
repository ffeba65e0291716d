package pvesim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

func (s *state) freeID() int {
	id, upper := s.idRange()
	for s.vms[id] != nil && id < upper {
		id++
	}
	return id
}

// setIDRange puts a model's range of VMIDs into datacenter.cfg.
func (s *state) setIDRange(r IDRange) {
	var parts []string
	if r.Lower != 0 {
		parts = append(parts, "lower="+strconv.Itoa(r.Lower))
	}
	if r.Upper != 0 {
		parts = append(parts, "upper="+strconv.Itoa(r.Upper))
	}
	if parts != nil {
		s.options = map[string]string{"next-id": strings.Join(parts, ",")}
	}
}

// idRange is what /cluster/nextid may give out (datacenter.cfg, next-id).
func (s *state) idRange() (lower, upper int) { return idRangeOf(s.options["next-id"]) }

func idRangeOf(option string) (lower, upper int) {
	lower, upper = 100, 1000000
	for part := range strings.SplitSeq(option, ",") {
		switch k, v, _ := strings.Cut(part, "="); k {
		case "lower":
			lower = atoi(v)
		case "upper":
			upper = atoi(v)
		}
	}
	return lower, upper
}

// sorted returns the VMs by ID.
func (s *state) sorted() []*vm {
	out := slices.Collect(maps.Values(s.vms))
	slices.SortFunc(out, func(a, b *vm) int { return a.id - b.id })
	return out
}
