package kubeadm

import (
	"context"
	_ "embed" // the script below
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed snapshot.sh
var snapshotScript string

// snapshotsFolder is where a server has its snapshots.
const snapshotsFolder = "/var/lib/homelab/etcd"

// Snapshot is a snapshot of etcd on a server, in /var/lib/homelab/etcd.
type Snapshot struct {
	Name    string // PREFIX-NODE-SECONDS
	Created time.Time
}

var snapshotName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,252}-(\d{1,12})$`)

func parseSnapshot(name string) (Snapshot, bool) {
	m := snapshotName.FindStringSubmatch(name)
	if m == nil {
		return Snapshot{}, false
	}
	at, err := strconv.ParseInt(m[1], 10, 64)
	return Snapshot{Name: name, Created: time.Unix(at, 0)}, err == nil
}

// SaveSnapshot saves etcd on a server that runs. Its name is the prefix, the node and the time.
func SaveSnapshot(ctx context.Context, r remote.Runner, prefix, node string) (Snapshot, error) {
	converge.Progressf(ctx, "saving a snapshot of etcd")
	out, err := remote.Output(ctx, r, "sh", "-c", snapshotScript, "snapshot.sh", prefix, snapshotsFolder, node)
	if err != nil {
		return Snapshot{}, fmt.Errorf("save a snapshot: %w", err)
	}
	s, ok := parseSnapshot(strings.TrimSpace(string(out)))
	if !ok {
		return Snapshot{}, fmt.Errorf("save a snapshot: expected its name, got %q", out)
	}
	return s, nil
}

// Snapshots lists those of a server.
func Snapshots(ctx context.Context, r remote.Runner) ([]Snapshot, error) {
	there, err := remote.Exists(ctx, r, snapshotsFolder)
	if err != nil || !there {
		return nil, err
	}
	out, err := remote.Output(ctx, r, "ls", "-1", snapshotsFolder)
	if err != nil {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	var all []Snapshot
	for line := range strings.Lines(string(out)) {
		if s, ok := parseSnapshot(strings.TrimSpace(line)); ok {
			all = append(all, s)
		}
	}
	return all, nil
}
