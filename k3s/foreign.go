package k3s

import (
	"fmt"

	"github.com/cps-gpu/homelab/internal/printable"
)

// ForeignClusterError means that K3s on a machine that this cluster did not make seems to belong to another cluster.
// It is left alone.
type ForeignClusterError struct {
	Node    string
	Role    Role
	Of      string // the cluster in its mark; empty if it has no mark
	Cluster string // of the file
}

// Error returns who owns this K3s, and what to do about it.
func (e *ForeignClusterError) Error() string {
	if e.Of != "" && e.Of != e.Cluster {
		return fmt.Sprintf("K3s on %s belongs to another cluster, %s (%s): remove it there (node:remove -node=%s with the file of %s), or remove %s from the file",
			e.Node, e.Of, ClusterFile, e.Node, e.Of, e.Node)
	}
	role := "K3s"
	if e.Role != RoleNone {
		role = "K3s runs, as " + string(e.Role) + ","
	}
	return fmt.Sprintf("%s on %s already, and may belong to another cluster: remove it there (k3s-uninstall.sh or k3s-agent-uninstall.sh), "+
		"or remove %s from the file; if it belongs to %s, run there: echo %s | sudo tee "+ClusterFile, role, e.Node, e.Node, e.Cluster, printable.Word(e.Cluster))
}
