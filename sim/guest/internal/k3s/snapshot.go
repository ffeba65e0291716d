package k3s

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/etcdfile"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// snapshotsDir is K3s' own; etcd-snapshot-dir is not simulated.
const snapshotsDir = serverDir + "/db/snapshots"

// ownKey is where the simulation keeps in etcd what it knows of a cluster beside Kubernetes'
// objects. In life that is in objects of its own: passwords in Secrets, manifests in Addons.
const ownKey = "/k3s/simulated"

// notSaved stands for the key of an authority that its control plane does not tell. A snapshot
// of that has no objects, and cannot be restored.
const notSaved = "this control plane is not saved\n"

// own is what is under ownKey.
type own struct {
	AgentSecret string
	Critical    map[string]string
	Passwords   map[string]string
	Applied     map[string]string
	VIP         netip.Addr
}

// contents is a snapshot of what etcd holds: Kubernetes' objects, what a joining server needs,
// encrypted with the token (pkg/cluster/storage.go), and the simulation's own.
func (c *cluster) contents(ctx context.Context) ([]byte, error) {
	saved := &plane.SavedState{Objects: map[string][]byte{}, Authority: []byte(notSaved)}
	var err error
	if saver, ok := c.plane.(plane.Saver); ok {
		if saved, err = saver.Save(ctx); err != nil {
			return nil, err
		}
	}
	keys := map[string][]byte{}
	maps.Copy(keys, saved.Objects)
	if keys[bootstrapKey(c.secret)], err = c.seal(saved); err != nil {
		return nil, err
	}
	c.mu.Lock()
	keys[ownKey], err = json.Marshal(own{c.agentSecret, c.critical, c.passwords, c.applied, c.vip})
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return etcdfile.Encode(saved.Snapshot, keys, bootstrapPrefix)
}

// snapshot saves etcd on a server's disk, and copies it to the bucket if there is one. Where
// the bucket is not available, K3s warns and goes on (snapshot, pkg/etcd/snapshot.go).
func (n *node) snapshot(ctx context.Context, prefix string) (name string, created int, err error) {
	file, err := n.cluster.contents(ctx)
	if err != nil {
		return "", 0, err
	}
	name = fmt.Sprintf("%s-%s-%d", prefix, n.name, time.Now().Round(time.Second).Unix())
	n.say("info", "Saving etcd snapshot to %s/%s", snapshotsDir, name)
	n.sys.Root().Save(snapshotsDir+"/"+name, string(file), 0o600)
	return name, 1 + n.upload(ctx, name, file), nil
}

// prune removes the oldest snapshots of a name (snapshotRetention, pkg/etcd/snapshot.go).
func prune(v *disk.View, prefix string, keep int) []string {
	entries, _ := v.ReadDir(snapshotsDir)
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(takenAt(b), takenAt(a)) })
	if keep < 1 || len(names) <= keep {
		return nil
	}
	for _, name := range names[keep:] {
		_ = v.Remove(snapshotsDir + "/" + name)
	}
	return names[keep:]
}

// takenAt is the time in a snapshot's name.
func takenAt(name string) int64 {
	at, _ := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	return at
}

// takeSnapshots takes snapshots by etcd-snapshot-schedule-cron until ctx ends.
func (n *node) takeSnapshots(ctx context.Context) {
	when, err := cron.ParseStandard(cmp.Or(n.cfg.get("etcd-snapshot-schedule-cron"), "0 */12 * * *"))
	if err != nil || n.cfg.get("etcd-disable-snapshots") == "true" {
		return
	}
	if _, can := n.cluster.plane.(plane.Saver); !can {
		return
	}
	prefix := cmp.Or(n.cfg.get("etcd-snapshot-name"), "etcd-snapshot")
	keep, err := strconv.Atoi(cmp.Or(n.cfg.get("etcd-snapshot-retention"), "5"))
	if err != nil {
		return
	}
	n.sys.Go(func() {
		for n.sys.Pause(ctx, time.Until(when.Next(time.Now()))) {
			if _, _, err := n.snapshot(ctx, prefix); err != nil {
				n.say("error", "Failed to take etcd snapshot: %v", err)
				continue
			}
			prune(n.sys.Root(), prefix, keep)
			n.pruneBucket(prefix, keep)
		}
	})
}

// snapshots is k3s etcd-snapshot save, ls, delete and prune.
func snapshots(ctx context.Context, p *machine.Proc, n *node, verb string, args []string) int {
	opts, names := getopt.Parse(args, "name", "dir", "etcd-snapshot-dir", "snapshot-retention")
	said := func(format string, args ...any) { // the logger's line is all that K3s says
		fmt.Fprintf(p.Stderr, "time=%q level=info msg=%q\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
	}
	switch verb {
	case "save":
		if err := n.bucketThere(); err != nil { // by hand it is an error, and nothing is saved (seen with v1.34.3)
			fmt.Fprintf(p.Stderr, "time=%q level=fatal msg=%q\n", time.Now().UTC().Format(time.RFC3339),
				"Error: see server log for details: failed to initialize S3 client: "+err.Error())
			return 1
		}
		name, created, err := n.snapshot(ctx, cmp.Or(getopt.Last(opts, "name"), "on-demand"))
		if err != nil {
			fmt.Fprintf(p.Stderr, "time=%q level=fatal msg=\"Error: %v\"\n", time.Now().UTC().Format(time.RFC3339), err)
			return 1
		}
		p.Sys.RecordChange("k3s snapshot saved")
		for range created {
			said("Snapshot %s saved.", name)
		}
	case "ls", "list":
		entries, _ := p.FS.ReadDir(snapshotsDir)
		w := tabwriter.NewWriter(p.Stdout, 0, 0, 1, ' ', 0)
		fmt.Fprint(w, "Name\tLocation\tSize\tCreated\n")
		for _, e := range entries {
			fmt.Fprintf(w, "%s\tfile://%s/%s\t%d\t%s\n", e.Name(), snapshotsDir, e.Name(), e.Size(), e.ModTime().UTC().Format(time.RFC3339))
		}
		_ = w.Flush()
	case "delete":
		for _, name := range names {
			if p.FS.Remove(snapshotsDir+"/"+path.Base(name)) != nil {
				fmt.Fprintf(p.Stderr, "time=%q level=warning msg=%q\n", time.Now().UTC().Format(time.RFC3339), "Snapshot "+name+" not found.")
				continue
			}
			n.removeCopy(path.Base(name))
			said("Snapshot %s deleted.", path.Base(name))
		}
	case "prune":
		keep, _ := strconv.Atoi(cmp.Or(getopt.Last(opts, "snapshot-retention"), "5"))
		for _, name := range prune(p.FS, cmp.Or(getopt.Last(opts, "name"), "on-demand"), keep) {
			said("Snapshot %s deleted.", name)
		}
	default:
		return p.Fail("etcd-snapshot %s is not simulated", verb)
	}
	return 0
}
