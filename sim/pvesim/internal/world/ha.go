package world

import (
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
)

// LeaveHARules takes a resource out of the rules that name it, and those that name
// nothing then.
func (s *State) LeaveHARules(sid string) {
	for _, id := range slices.Clone(s.HARuleOrder) {
		left := slices.DeleteFunc(schema.SplitList(s.HARules[id]["resources"]), func(r string) bool { return r == sid })
		s.HARules[id]["resources"] = strings.Join(left, ",")
		if len(left) == 0 {
			delete(s.HARules, id)
			s.HARuleOrder = slices.DeleteFunc(s.HARuleOrder, func(r string) bool { return r == id })
		}
	}
}
