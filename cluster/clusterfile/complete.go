package clusterfile

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// Complete does for a Spec that was written in Go what [Load] does for a file: it fills in the
// defaults, makes the nodes of pools, and checks everything. A zero field has its default. If there
// are mistakes, the error is [spec.Problems], with all of them, and each has the path of its field
// in place of a line. A Spec that is complete is left as it is; only the checks look at it.
func Complete(s *spec.Spec, checks ...spec.Check) error {
	if s.Completed() {
		return recheck(s, checks)
	}
	c := decode.NewValueChecker(s.File, s.Dir)
	done, err := resolve(c, c.ValueTree(*s), s.File, s.Dir, checks)
	if err != nil {
		return err
	}
	for i, n := range s.Nodes {
		if to, _ := done.Node(n.Name); n.Address.IsValid() && !n.Address.IsSingleIP() && n.Address != to.Address {
			return spec.Problems{{
				Path: fmt.Sprintf("Nodes[%d].Address", i), What: fmt.Sprintf("%s is not in the node's network %s", n.Address, to.Network.Prefix),
				Cure: "write " + to.Address.String(),
			}}
		}
	}
	*s = *done
	return nil
}

// recheck runs checks of a Spec that is complete. Noting the paths of all fields takes ten times as long,
// so that comes only if something is wrong.
func recheck(s *spec.Spec, checks []spec.Check) (err error) {
	for _, located := range []bool{false, true} {
		c := decode.NewValueChecker(s.File, s.Dir)
		if located {
			c.Locate(s)
		}
		for _, check := range checks {
			check(s, report{c, s})
		}
		if err = c.Err(); err == nil {
			return nil
		}
	}
	return err
}

// report is where a [spec.Check] writes.
type report struct {
	*decode.Checker
	spec *spec.Spec
}

// Entry implements [spec.Report].
func (r report) Entry(of any, name string) any { return r.MemberAt(of, name) }

// Key implements [spec.Report].
func (r report) Key(path string) any { return decode.FieldAt(r.spec, path) }

// Sound implements [spec.Report].
func (r report) Sound() bool { return len(r.Problems) == 0 && !r.Undecoded() }
