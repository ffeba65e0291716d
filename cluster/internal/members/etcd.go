package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/remote"
)

// k3sProgram is what K3s' own commands run.
const k3sProgram = "/usr/local/bin/k3s"

// etcdTime is how long etcd's members may take to be well after a server has restarted. K3s
// looks at them every 15 seconds.
const etcdTime = 3 * time.Minute

// etcdSick says which servers have no working etcd member, "" if all do. The condition of the
// Nodes is what etcd's leader sees; the API server on each machine says whether it reaches its
// own member.
func (ms *Members) etcdSick(ctx context.Context) (string, error) {
	nodes, err := ms.apiNodes(ctx)
	if err != nil {
		return "", err
	}
	reported := false
	for _, n := range nodes {
		reported = reported || n.Voter != ""
	}
	var out []string
	for _, n := range nodes {
		if n.Role != string(spec.Server) {
			continue
		}
		switch {
		case !n.Ready:
			out = append(out, n.Name+": "+n.Reason)
		case n.Voter == "" && reported:
			out = append(out, n.Name+": K3s has not reported its etcd member yet")
		case n.Voter != "" && n.Voter != "True":
			out = append(out, n.Name+": its etcd member is not well: "+n.VoterReason)
		default:
			if _, ours := ms.Spec.Node(n.Name); !ours {
				continue
			}
			if why := ms.unreadyReason(ctx, n.Name); why != "" {
				out = append(out, n.Name+": "+why)
			}
		}
	}
	return strings.Join(out, ", "), nil
}

// apiNodes returns Kubernetes' nodes; none if there is no cluster yet.
func (ms *Members) apiNodes(ctx context.Context) ([]kube.Node, error) {
	client, err := ms.Kube(ctx)
	if errors.Is(err, ErrUnformed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return client.Nodes(ctx)
}

// failedCheck is a line of /readyz?verbose for a check that fails (k8s.io/apiserver,
// pkg/server/healthz). kubectl quotes the whole answer.
var failedCheck = regexp.MustCompile(`\[-\]([\w/.-]+) failed`)

// unreadyReason says why the API server on a server's machine is not ready, "" if it is. The
// cluster's address would ask whichever server has it.
func (ms *Members) unreadyReason(ctx context.Context, server string) string {
	ctx, cancel := context.WithTimeout(ctx, run.Limit(ms.Spec, askTime))
	defer cancel()
	_, err := remote.Output(ctx, ms.Nodes.Root(server), k3sProgram, "kubectl", "get", "--raw", "/readyz?verbose")
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

// waitEtcd waits until every etcd member is well.
func (ms *Members) waitEtcd(ctx context.Context, n spec.Node) error {
	rule := converge.WaitRule{What: "waiting for etcd", Limit: etcdTime, TimeoutText: "etcd is not well after the upgrade of " + n.Name}
	return run.Until(ctx, ms.Spec, rule, ms.etcdSick)
}

// snapshot is one of etcd on a server.
type snapshot struct {
	name    string
	created time.Time
}

// snapshots lists those on a server.
func (ms *Members) snapshots(ctx context.Context, server string) ([]snapshot, error) {
	out, err := remote.Output(ctx, ms.Nodes.Root(server), k3sProgram, "etcd-snapshot", "ls")
	if err != nil {
		return nil, fmt.Errorf("list the snapshots of etcd on %s: %w", server, err)
	}
	return snapshotsIn(string(out)), nil
}

// snapshotsIn reads the table that K3s prints: name, location, size and time
// (pkg/cli/etcdsnapshot of release-1.34).
func snapshotsIn(table string) (all []snapshot) {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		if at, err := time.Parse(time.RFC3339, f[len(f)-1]); err == nil {
			all = append(all, snapshot{f[0], at})
		}
	}
	return all
}

// savedLine is how K3s says under which name it has saved a snapshot: the name that was asked
// for, the node and the time.
var savedLine = regexp.MustCompile(`Snapshot ([\w.+-]+) saved\.`)

// saveSnapshot saves etcd on a server, and returns the snapshot's name.
func (ms *Members) saveSnapshot(ctx context.Context, server, name string) (string, error) {
	var said bytes.Buffer
	err := ms.Nodes.Root(server).Run(ctx, remote.Cmd{
		Args: []string{k3sProgram, "etcd-snapshot", "save", "--name", name}, Stdout: &said, Stderr: &said,
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
