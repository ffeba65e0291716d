package k3s

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Program returns K3s as one calls it by hand.
func Program(name string) machine.Program {
	switch name {
	case "k3s":
		return runCommand
	}
	return nil
}

// runCommand is the k3s program as one calls it by hand.
func runCommand(ctx context.Context, p *machine.Proc) int {
	file, err := p.Find(p.Args[0])
	if err != nil {
		return p.Fail("%v", err)
	}
	data, _ := p.FS.ReadFile(file)
	version := disk.Value(data, "version")
	args := p.Args[1:]
	if len(args) == 0 || slices.Contains([]string{"--version", "-v"}, args[0]) {
		p.Printf("k3s version %s (%s)\ngo version go1.24.11\n", version, caHash(version)[:8])
		return 0
	}
	n := stateOf(p.Sys).running.Load()
	if n == nil || n.role != "server" || p.User.UID != 0 {
		fmt.Fprintf(p.Stderr, "time=\"now\" level=fatal msg=\"Error: no running k3s server, or permission denied\"\n")
		return 1
	}
	switch {
	case args[0] == "kubectl" && len(args) > 2 && args[1] == "get" && strings.HasPrefix(args[2], "node"):
		return kubectlNodes(ctx, p, n.cluster.plane)
	case args[0] == "token" && len(args) > 1:
		return tokens(p, n.cluster, args[1], args[2:])
	case args[0] == "etcd-snapshot" && len(args) > 1:
		return snapshots(p, n, args[1], args[2:])
	}
	fmt.Fprintf(p.Stderr, "k3s %s: not simulated\n", strings.Join(args, " "))
	return 1
}

// snapshots is k3s etcd-snapshot save, ls and delete. A snapshot is a file with
// the cluster's name in it; restoring one is not simulated.
func snapshots(p *machine.Proc, n *node, verb string, args []string) int {
	const dir = serverDir + "/db/snapshots"
	opts, names := getopt.Parse(args, "name", "dir", "etcd-snapshot-dir")
	switch verb {
	case "save":
		name := getopt.Last(opts, "name")
		if name == "" {
			name = "on-demand"
		}
		name = fmt.Sprintf("%s-%s-%d", name, n.name, time.Now().Unix())
		p.FS.Save(dir+"/"+name, "snapshot of "+n.cluster.id+"\n", 0o600)
		// The logger's line is all that K3s says.
		fmt.Fprintf(p.Stderr, "time=%q level=info msg=\"Snapshot %s saved.\"\n", time.Now().UTC().Format(time.RFC3339), name)
	case "ls", "list":
		entries, _ := p.FS.ReadDir(dir)
		p.Printf("Name Location Size Created\n")
		for _, e := range entries {
			p.Printf("%s file://%s/%s %d %s\n", e.Name(), dir, e.Name(), e.Size(), e.ModTime().UTC().Format(time.RFC3339))
		}
	case "delete":
		for _, name := range names {
			if err := p.FS.Remove(dir + "/" + path.Base(name)); err != nil {
				return p.Fail("%s: %s", name, disk.Strerror(err))
			}
			fmt.Fprintf(p.Stderr, "time=%q level=info msg=\"Snapshot %s deleted.\"\n", time.Now().UTC().Format(time.RFC3339), path.Base(name))
		}
	default:
		return p.Fail("etcd-snapshot %s is not simulated", verb)
	}
	return 0
}
