package clusterfile

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// Complete does for a Spec that was written in Go what [Load] does for a file: it fills in the
// defaults, makes the nodes of pools, and checks everything. A zero field has its default. If there
// are mistakes, the error is [spec.Problems], with all of them, and each has the path of its field
// in place of a line. A Spec that is complete is left as it is.
func Complete(s *spec.Spec) error {
	if s.Completed() {
		return nil
	}
	c := decode.NewValueChecker(s.File, s.Dir)
	done, err := resolve(c, c.ValueTree(*s), s.File, s.Dir)
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
