package guest

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// runK3sCommand is the k3s program as one calls it by hand.
func runK3sCommand(ctx context.Context, p *proc) int {
	file, err := p.find(p.args[0])
	if err != nil {
		return p.fail("%v", err)
	}
	data, _ := p.fs.ReadFile(file)
	version := disk.Value(data, "version")
	args := p.args[1:]
	if len(args) == 0 || slices.Contains([]string{"--version", "-v"}, args[0]) {
		p.printf("k3s version %s (%s)\ngo version go1.24.11\n", version, caHash(version)[:8])
		return 0
	}
	n := k3sOf(p.sys).running.Load()
	if n == nil || n.role != "server" || p.user.UID != 0 {
		fmt.Fprintf(p.stderr, "time=\"now\" level=fatal msg=\"Error: no running k3s server, or permission denied\"\n")
		return 1
	}
	switch {
	case args[0] == "kubectl" && len(args) > 2 && args[1] == "get" && strings.HasPrefix(args[2], "node"):
		return p.kubectlNodes(ctx, n.cluster.plane)
	case args[0] == "token" && len(args) > 1 && args[1] == "create":
		secret := hexID(3) + "." + hexID(8)
		n.cluster.mu.Lock()
		n.cluster.bootstrap[secret] = true
		n.cluster.mu.Unlock()
		p.sys.mutated("k3s token created")
		p.printf("K10%s::%s\n", n.cluster.caHash, secret)
		return 0
	case args[0] == "etcd-snapshot" && len(args) > 1:
		return p.snapshots(n, args[1], args[2:])
	}
	fmt.Fprintf(p.stderr, "k3s %s: not simulated\n", strings.Join(args, " "))
	return 1
}

// snapshots is k3s etcd-snapshot save, ls and delete. A snapshot is a file with
// the cluster's name in it; restoring one is not simulated.
func (p *proc) snapshots(n *k3sNode, verb string, args []string) int {
	const dir = k3sServerDir + "/db/snapshots"
	opts, names := flags(args, "name", "dir", "etcd-snapshot-dir")
	switch verb {
	case "save":
		name := last(opts, "name")
		if name == "" {
			name = "on-demand"
		}
		name = fmt.Sprintf("%s-%s-%d", name, n.name, time.Now().Unix())
		p.fs.Save(dir+"/"+name, "snapshot of "+n.cluster.id+"\n", 0o600)
		// The logger's line is all that K3s says.
		fmt.Fprintf(p.stderr, "time=%q level=info msg=\"Snapshot %s saved.\"\n", time.Now().UTC().Format(time.RFC3339), name)
	case "ls", "list":
		entries, _ := p.fs.ReadDir(dir)
		p.printf("Name Location Size Created\n")
		for _, e := range entries {
			p.printf("%s file://%s/%s %d %s\n", e.Name(), dir, e.Name(), e.Size(), e.ModTime().UTC().Format(time.RFC3339))
		}
	case "delete":
		for _, name := range names {
			if err := p.fs.Remove(dir + "/" + path.Base(name)); err != nil {
				return p.fail("%s: %s", name, disk.Strerror(err))
			}
			fmt.Fprintf(p.stderr, "time=%q level=info msg=\"Snapshot %s deleted.\"\n", time.Now().UTC().Format(time.RFC3339), path.Base(name))
		}
	default:
		return p.fail("etcd-snapshot %s is not simulated", verb)
	}
	return 0
}
