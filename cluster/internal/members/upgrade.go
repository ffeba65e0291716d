package members

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/kube"
)

// nodeVersion is what a node keeps whose pods hold up another version of Kubernetes.
const nodeVersion = "its version"

// upgradeServer brings a running server to the version of the file: after a snapshot of etcd
// if it is the first one, and only while every etcd member is well.
func (ms *Members) upgradeServer(ctx context.Context, n spec.Node, have distribution.Member, do func(context.Context) error) error {
	err := ms.inTurn(ctx, n, maintenance{
		away:     ms.othersOrEtcdUnhealthy,
		first:    func(ctx context.Context) error { return ms.saveBefore(ctx, n, have.State()) },
		gpuGrace: nodeVersion,
		do:       do,
		after:    func(ctx context.Context) error { return ms.waitEtcd(ctx, n) },
	})
	return ms.withRollbackHint(ctx, n, err)
}

// upgradeAgent is upgradeServer for an agent, once the servers are upgraded.
func (ms *Members) upgradeAgent(ctx context.Context, n spec.Node, do func(context.Context) error) error {
	if err := ms.serversFirst(ctx); err != nil {
		return err
	}
	return ms.inTurn(ctx, n, maintenance{away: ms.othersUnhealthy, gpuGrace: nodeVersion, do: do})
}

// othersOrEtcdUnhealthy is othersUnhealthy, and then etcdSick: a server must not go down while the member of
// another one does not work.
func (ms *Members) othersOrEtcdUnhealthy(ctx context.Context, n spec.Node) (string, error) {
	if ms.isOnlyServer(n) {
		return "", nil
	}
	if others, err := ms.othersUnhealthy(ctx, n); others != "" || err != nil {
		return others, err
	}
	return ms.etcdSick(ctx)
}

// fresh is how old a snapshot may be to count as the one before this upgrade, so that a run
// that is repeated saves no second one.
const fresh = time.Hour

// snapshotPrefix begins the names of the snapshots before an upgrade. K3s, for one, appends the node and
// the time.
func snapshotPrefix(version string) string {
	return "homelab-before-" + strings.ReplaceAll(version, "+", "-")
}

// savedSnapshot is the snapshot before the upgrade, once it is known.
type savedSnapshot struct {
	mu          sync.Mutex
	name, where string
}

// SavedSnapshot returns the snapshot of etcd that was saved before an upgrade, and where it is, e.g. on cp1;
// empty if there was none.
func (ms *Members) SavedSnapshot() (name, where string) {
	ms.saved.mu.Lock()
	defer ms.saved.mu.Unlock()
	return ms.saved.name, ms.saved.where
}

// savedAt is where the snapshots of a server are.
func savedAt(d distribution.Distribution, server string) string {
	if folder := d.Facts().Saves; folder != "" {
		return "in " + folder
	}
	return "on " + server
}

// saveBefore saves a snapshot of etcd before the first server is upgraded.
func (ms *Members) saveBefore(ctx context.Context, n spec.Node, have distribution.State) error {
	if ms.isOnlyServer(n) && !have.Running {
		converge.Progressf(ctx, "%s does not run on the only server %s, so there is no snapshot of etcd before the upgrade", ms.title(), n.Name)
		return nil
	}
	nodes, err := ms.apiNodes(ctx)
	if err != nil {
		return err
	}
	for _, other := range nodes {
		if have.Version != ms.Spec.K3s.Version && other.Role == string(spec.Server) && other.Version == ms.Spec.K3s.Version {
			return nil // the upgrade has begun
		}
	}
	prefix := snapshotPrefix(ms.Spec.K3s.Version)
	all, err := ms.Distribution.Snapshots(ctx, n.Name)
	if err != nil {
		return err
	}
	name, old := newest(all, prefix)
	if name == "" || time.Since(old) > fresh {
		converge.Progressf(ctx, "saving etcd before the upgrade to %s", ms.Spec.K3s.Version)
		if name, err = ms.Distribution.Save(ctx, n.Name, prefix); err != nil {
			return fmt.Errorf("%w; nothing was upgraded", err)
		}
	}
	converge.Progressf(ctx, "the snapshot of etcd before the upgrade is %s %s; docs/restore.md says how to go back to it", name, savedAt(ms.Distribution, n.Name))
	s := ms.saved
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.where = name, savedAt(ms.Distribution, n.Name)
	return nil
}

// newest returns the newest snapshot whose name begins with prefix.
func newest(all []distribution.Snapshot, prefix string) (name string, created time.Time) {
	for _, s := range all {
		if strings.HasPrefix(s.Name, prefix+"-") && !s.Created.Before(created) {
			name, created = s.Name, s.Created
		}
	}
	return name, created
}

// withRollbackHint adds to the failure of a server's upgrade how to go on, and how to go back.
func (ms *Members) withRollbackHint(ctx context.Context, n spec.Node, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, distribution.ErrVersion) {
		return err
	}
	name, where := ms.findSavedSnapshot(ctx)
	back := ""
	if name != "" {
		back = fmt.Sprintf("\n  to go back: restore the snapshot %s, which is %s: docs/restore.md", name, where)
	}
	return fmt.Errorf("%w\n  to go on: fix that, then run homelab cluster:up again: it goes on with %s%s", err, n.Name, back)
}

// findSavedSnapshot finds the snapshot before this upgrade, which an earlier run may have saved.
func (ms *Members) findSavedSnapshot(ctx context.Context) (name, where string) {
	s := ms.saved
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name != "" {
		return s.name, s.where
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for _, n := range ms.Spec.Servers() {
		all, err := ms.Distribution.Snapshots(ctx, n.Name)
		if err != nil {
			continue
		}
		if s.name, _ = newest(all, snapshotPrefix(ms.Spec.K3s.Version)); s.name != "" {
			s.where = savedAt(ms.Distribution, n.Name)
			break
		}
	}
	return s.name, s.where
}

// CheckVersions checks, before anything changes, that Kubernetes supports the step from the
// version of every node to that of the file. If again names nodes whose machines are made again,
// it checks those alone: they come in the file's version, and an agent must not be newer than a
// server. The other nodes must be of the file's region.
func (ms *Members) CheckVersions(ctx context.Context, again ...string) error {
	nodes, err := ms.apiNodes(ctx)
	if err != nil {
		return nil //nolint:nilerr // nobody answers: each step checks its own node
	}
	nodes = slices.DeleteFunc(nodes, func(n kube.Node) bool { _, ours := ms.Spec.Node(n.Name); return !ours })
	stay := slices.DeleteFunc(slices.Clone(nodes), func(n kube.Node) bool { return slices.Contains(again, n.Name) })
	for _, n := range stay {
		if err := ms.checkRegion(n.Name, n.ProviderID); err != nil {
			return converge.Permanent(err)
		}
	}
	if err := ms.checkMachines(ctx, stay); err != nil {
		return err
	}
	why := map[string][]string{}
	if len(again) == 0 {
		for _, n := range nodes {
			if err := checkUpgrade(ms.Kubernetes, spec.Role(n.Role), n.Version); err != nil {
				why[err.Error()] = append(why[err.Error()], n.Name)
			}
		}
	}
	for _, name := range again {
		if n, _ := ms.Spec.Node(name); n.Role != spec.Agent {
			continue
		}
		for _, n := range nodes {
			if n.Role == string(spec.Server) && ms.Distribution.Compare(n.Version, ms.Spec.K3s.Version) < 0 {
				words := fmt.Sprintf("the server %s runs %s %s, and an agent with %s would be newer: homelab cluster:up upgrades the servers first", n.Name, program(ms.Distribution), n.Version, ms.Spec.K3s.Version)
				why[words] = append(why[words], name)
			}
		}
	}
	var errs []error
	for _, words := range slices.Sorted(maps.Keys(why)) {
		errs = append(errs, fmt.Errorf("%s: %s", strings.Join(why[words], ", "), words))
	}
	return converge.Permanent(errors.Join(errs...))
}
