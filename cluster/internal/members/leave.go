package members

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
)

// Leave drains a machine that is no longer in the file and deletes it from Kubernetes, before it is destroyed. plain: it
// is a VM without Kubernetes, and no server has to know it.
func (ms *Members) Leave(ctx context.Context, machine string, plain bool) error {
	switch _, err := ms.DrainFor(ctx, machine); {
	case errors.Is(err, ErrUnformed): // no cluster knows it
	case errors.Is(err, ErrNoServer) && plain:
	case errors.Is(err, ErrNoServer):
		return fmt.Errorf("%s is no longer in the file, but stays until it can be drained and deleted from Kubernetes: start the servers and run it again: %w", machine, err)
	case err != nil:
		return err
	default:
		if err := ms.DeleteNode(ctx, machine); err != nil {
			return err
		}
	}
	return converge.Confirm(ctx) // its server may have taken a while to leave
}

// CheckServerLeft refuses to remove machines if none of the file's servers is there: that would remove the cluster itself,
// with its data. An external one always is.
func CheckServerLeft(s *spec.Spec, there, going []string) error {
	if slices.ContainsFunc(s.Servers(), func(n spec.Node) bool { return n.External || slices.Contains(there, n.Name) }) {
		return nil
	}
	return fmt.Errorf("none of the file's servers exists, and %s would be removed, with all of the cluster's data: "+
		"if servers were renamed, keep the name of one until another has joined; to remove everything, use cluster:down", strings.Join(going, ", "))
}

// RestartReason names what a diff restarts a machine for.
func RestartReason(d converge.Diff) string {
	var paths []string
	for _, f := range d {
		if f.Effect == converge.Restart && !slices.Contains(paths, f.Path) {
			paths = append(paths, f.Path)
		}
	}
	return "other " + strings.Join(paths, ", ")
}

// MachineGone says that the machine of a node was destroyed, to be made again, and waits until the API is back if it may
// have been there.
func (ms *Members) MachineGone(ctx context.Context, n spec.Node) error {
	met := ms.Nodes.Observation(n.Name)
	met.Made.Store(true)
	met.Absent.Store(true)
	if n.Role != spec.Server {
		return nil
	}
	ms.SetClient(nil, "") // connections may be to this machine
	if len(ms.Spec.Servers()) == 1 {
		return nil
	}
	return ms.APIBack(ctx, APITime)
}
