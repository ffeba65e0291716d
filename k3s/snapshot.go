package k3s

import (
	"context"
	_ "embed" // the script below
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed snapshot.sh
var snapshotScript string

// defaultSnapshotsDir is where K3s saves snapshots, unless its configuration says otherwise.
const defaultSnapshotsDir = "/var/lib/rancher/k3s/server/db/snapshots"

// Snapshot is a snapshot of etcd on a server.
type Snapshot struct {
	Path   string // on the server
	Size   int64  // in bytes
	SHA256 string // in hexadecimal
}

// Name returns the snapshot's name, as K3s has it.
func (s Snapshot) Name() string { return path.Base(s.Path) }

// snapshotsDir returns the folder in which K3s on a server saves its snapshots.
func snapshotsDir(have State) string {
	if dir, ok := have.Config["etcd-snapshot-dir"].(string); ok && path.IsAbs(dir) {
		return dir
	}
	return defaultSnapshotsDir
}

var snapshotPrefix = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,62}$`)

// SaveSnapshot saves etcd on a running server. K3s adds the node's name and the time to prefix.
// The schedule's retention does not remove such a snapshot.
func SaveSnapshot(ctx context.Context, r remote.Runner, have State, prefix string) (Snapshot, error) {
	if !snapshotPrefix.MatchString(prefix) {
		return Snapshot{}, fmt.Errorf("save a snapshot: %q cannot begin its name: write letters, digits, '-' and '.'", prefix)
	}
	converge.Progressf(ctx, "saving a snapshot of etcd")
	out, err := remote.Output(ctx, r, "sh", "-c", snapshotScript, "snapshot.sh", prefix, snapshotsDir(have))
	if err != nil {
		return Snapshot{}, fmt.Errorf("save a snapshot: %w", err)
	}
	return parseSnapshot(out)
}

// FindSnapshot looks for a snapshot by its name on a server. An error that wraps
// [ErrNoSnapshot] says that it is not there.
func FindSnapshot(ctx context.Context, r remote.Runner, have State, name string) (Snapshot, error) {
	if err := CheckSnapshotName(name); err != nil {
		return Snapshot{}, err
	}
	file := snapshotsDir(have) + "/" + name
	if there, err := remote.Exists(ctx, r, file); err != nil || !there {
		return Snapshot{}, errors.Join(err, ErrNoSnapshot)
	}
	size, err := remote.Output(ctx, r, "stat", "-c", "%s", file)
	if err != nil {
		return Snapshot{}, err
	}
	sum, err := remote.Output(ctx, r, "sha256sum", file)
	if err != nil {
		return Snapshot{}, err
	}
	return parseSnapshot(fmt.Appendf(nil, "%s\n%s\n%s", file, strings.TrimSpace(string(size)), sum))
}

var snapshotName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// CheckSnapshotName says whether K3s could have given a snapshot this name: a plain file name.
func CheckSnapshotName(name string) error {
	if !snapshotName.MatchString(name) {
		return fmt.Errorf("%.80q is not the name of a snapshot: k3s etcd-snapshot ls lists them", name)
	}
	return nil
}

// ErrNoSnapshot says that a server does not have the snapshot.
var ErrNoSnapshot = errors.New("there is no snapshot of that name")

var sha256Text = regexp.MustCompile(`^[0-9a-f]{64}$`)

// parseSnapshot reads what snapshot.sh printed.
func parseSnapshot(out []byte) (Snapshot, error) {
	all := lines(string(out))
	if len(all) != 3 {
		return Snapshot{}, fmt.Errorf("save a snapshot: expected its place, size and digest, got %q", out)
	}
	sum, _, _ := strings.Cut(all[2], " ")
	size, err := strconv.ParseInt(all[1], 10, 64)
	if err != nil || !sha256Text.MatchString(sum) {
		return Snapshot{}, fmt.Errorf("save a snapshot: expected its place, size and digest, got %q", out)
	}
	return Snapshot{Path: all[0], Size: size, SHA256: sum}, CheckSnapshotName(path.Base(all[0]))
}

// Fetch writes a snapshot to w.
func (s Snapshot) Fetch(ctx context.Context, r remote.Runner, w io.Writer) error {
	if err := r.Run(ctx, remote.Cmd{Args: []string{"cat", "--", s.Path}, Stdout: w}); err != nil {
		return fmt.Errorf("fetch the snapshot %s: %w", s.Name(), err)
	}
	return nil
}

// Delete removes a snapshot from the server, and its copy from the bucket, if there is one.
func (s Snapshot) Delete(ctx context.Context, r remote.Runner) error {
	if err := remote.Run(ctx, r, binary, "etcd-snapshot", "delete", s.Name()); err != nil {
		return fmt.Errorf("delete the snapshot %s: %w", s.Name(), err)
	}
	return nil
}
