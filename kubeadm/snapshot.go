package kubeadm

import (
	"context"
	_ "embed" // the script below
	"errors"
	"fmt"
	"io"
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

// errNoSnapshot says that a server does not have the snapshot.
var errNoSnapshot = errors.New("there is no snapshot of that name")

// File is where a server has a snapshot.
type File struct {
	Path   string
	Size   int64  // in bytes
	SHA256 string // in hexadecimal
}

// FindSnapshot looks for a snapshot by its name.
func FindSnapshot(ctx context.Context, r remote.Runner, name string) (File, error) {
	if _, ok := parseSnapshot(name); !ok {
		return File{}, fmt.Errorf("%.80q is not the name of a snapshot: ls %s on a server lists them", name, snapshotsFolder)
	}
	f := File{Path: snapshotsFolder + "/" + name}
	if there, err := remote.Exists(ctx, r, f.Path); err != nil || !there {
		return File{}, errors.Join(err, errNoSnapshot)
	}
	size, err := remote.Output(ctx, r, "stat", "-c", "%s", f.Path)
	if err != nil {
		return File{}, err
	}
	if f.Size, err = strconv.ParseInt(strings.TrimSpace(string(size)), 10, 64); err != nil {
		return File{}, fmt.Errorf("find the snapshot %s: expected its size, got %q", name, size)
	}
	sum, err := remote.Output(ctx, r, "sha256sum", f.Path)
	f.SHA256, _, _ = strings.Cut(string(sum), " ")
	return f, err
}

// Fetch writes it to w.
func (f File) Fetch(ctx context.Context, r remote.Runner, w io.Writer) error {
	if err := r.Run(ctx, remote.Cmd{Args: []string{"cat", "--", f.Path}, Stdout: w}); err != nil {
		return fmt.Errorf("fetch the snapshot %s: %w", f.Path, err)
	}
	return nil
}

// Delete removes it.
func (f File) Delete(ctx context.Context, r remote.Runner) error {
	if err := remote.Run(ctx, r, "rm", "-f", "--", f.Path); err != nil {
		return fmt.Errorf("delete the snapshot %s: %w", f.Path, err)
	}
	return nil
}
