package members

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/internal/occupants"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/remote"
)

// Adoptee is a VM that another owner made, which is about to become a node.
type Adoptee struct {
	Node         spec.Node
	Root         remote.Runner             // by its guest agent: it may not let this cluster log in yet
	Distribution distribution.Distribution // on that way
	Copy         bool                      // of a node of this cluster, by the mark that it still has: what it has is the cluster's own
}

// CheckAdoption says why a VM with a Kubernetes cannot become a node; "": it can.
func CheckAdoption(ctx context.Context, ks *Kubernetes, vm Adoptee) (reason string, err error) {
	found, err := occupants.Observe(ctx, vm.Root)
	if err != nil {
		return "", err
	}
	ours := vm.Distribution.Facts().Step
	if reason := found.Others(ours, vm.Node.Name); reason != "" || found.List(ours) == "" || vm.Copy {
		return reason, nil
	}
	member, err := vm.Distribution.Observe(ctx, vm.Node)
	if err != nil {
		return "", err
	}
	if known, err := ks.authorities(ctx, vm.Node); err != nil || known[member.State().Authority] {
		return "", err
	}
	if err = ownsMarked(ctx, ks, vm.Node, member); IsForeign(err) {
		return fmt.Sprintf("%v; there is %s", err, found.List(ours)), nil
	}
	return "", err
}
