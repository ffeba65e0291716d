package k3snodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// program is what K3s' own commands run.
const program = "/usr/local/bin/k3s"

// meaning adds to an error of K3s what it means to a cluster.
func meaning(err error) error {
	if errors.Is(err, k3s.ErrNoCluster) {
		return distribution.Means(err, distribution.ErrNoCluster)
	}
	return err
}

// Admit reads the cluster's own token for a server, which never expires, and creates a token for an agent alone.
func (ns *Nodes) Admit(ctx context.Context, server string, n spec.Node, valid time.Duration) (a distribution.Admission, err error) {
	if n.Role == spec.Agent {
		a.ID, a.Value, err = k3s.CreateToken(ctx, ns.root(server), valid, "homelab: "+ns.spec.Name+"/"+n.Name)
	} else {
		a.Value, err = k3s.Token(ctx, ns.root(server))
	}
	return a, meaning(err)
}

// Revoke deletes the token of an agent.
func (ns *Nodes) Revoke(ctx context.Context, server string, a distribution.Admission) error {
	return meaning(k3s.RevokeToken(ctx, ns.root(server), a.ID))
}

// Kubeconfig reads the administrator's kubeconfig.
func (ns *Nodes) Kubeconfig(ctx context.Context, server string) (secret.Value, error) {
	config, err := k3s.Kubeconfig(ctx, ns.root(server), distribution.APIURL(ns.spec), ns.spec.Name)
	return config, meaning(err)
}

// failedCheck is a line of /readyz?verbose for a check that fails (k8s.io/apiserver,
// pkg/server/healthz). kubectl quotes the whole answer.
var failedCheck = regexp.MustCompile(`\[-\]([\w/.-]+) failed`)

// Unwell says why the API server on a server's machine is not ready, "" if it is. The
// cluster's address would ask whichever server has it.
func (ns *Nodes) Unwell(ctx context.Context, server string) string {
	_, err := remote.Output(ctx, ns.root(server), program, "kubectl", "get", "--raw", "/readyz?verbose")
	if err == nil {
		return ""
	}
	var exit *remote.ExitError
	if !errors.As(err, &exit) {
		return "cannot ask its API server: " + printable.FirstLine(err.Error())
	}
	return "its API server is not ready: " + failedChecks(exit.Stderr)
}

// failedChecks names the checks that failed, or says what kubectl says.
func failedChecks(said string) string {
	var failed []string
	for _, m := range failedCheck.FindAllStringSubmatch(said, -1) {
		failed = append(failed, m[1])
	}
	if len(failed) == 0 {
		return printable.FirstLine(strings.TrimSpace(said))
	}
	return strings.Join(failed, ", ") + " failed"
}

// Snapshots lists the snapshots of etcd on a server.
func (ns *Nodes) Snapshots(ctx context.Context, server string) ([]distribution.Snapshot, error) {
	out, err := remote.Output(ctx, ns.root(server), program, "etcd-snapshot", "ls")
	if err != nil {
		return nil, fmt.Errorf("list the snapshots of etcd on %s: %w", server, err)
	}
	return snapshotsIn(string(out)), nil
}

// snapshotsIn reads the table that K3s prints: name, location, size and time
// (pkg/cli/etcdsnapshot of release-1.34).
func snapshotsIn(table string) (all []distribution.Snapshot) {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		if at, err := time.Parse(time.RFC3339, f[len(f)-1]); err == nil {
			all = append(all, distribution.Snapshot{Name: f[0], Created: at})
		}
	}
	return all
}

// savedLine is how K3s says under which name it has saved a snapshot: the name that was asked
// for, the node and the time.
var savedLine = regexp.MustCompile(`Snapshot ([\w.+-]+) saved\.`)

// Save saves etcd on a server, and returns the snapshot's name.
func (ns *Nodes) Save(ctx context.Context, server, prefix string) (string, error) {
	var said bytes.Buffer
	err := ns.root(server).Run(ctx, remote.Cmd{
		Args: []string{program, "etcd-snapshot", "save", "--name", prefix}, Stdout: &said, Stderr: &said,
	})
	if err != nil {
		return "", fmt.Errorf("save a snapshot of etcd on %s: %w", server, err)
	}
	m := savedLine.FindStringSubmatch(said.String())
	if m == nil {
		return "", fmt.Errorf("save a snapshot of etcd on %s: K3s does not say that it has: %s", server, printable.FirstLine(strings.TrimSpace(said.String())))
	}
	return m[1], nil
}
