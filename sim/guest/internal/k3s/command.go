package k3s

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Programs returns K3s as one calls it by hand.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{"k3s": runCommand}
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
	switch {
	case p.User.UID == 0 && args[0] == "server" && slices.ContainsFunc(args[1:], func(a string) bool { return strings.TrimSuffix(a, "=true") == "--cluster-reset" }):
		return reset(ctx, p, version, args[1:])
	case p.User.UID == 0 && args[0] == "certificate" && len(args) > 1:
		return certificates(p, args[1])
	}
	n := stateOf(p.Sys).running.Load()
	if n == nil || n.role != "server" || p.User.UID != 0 {
		fmt.Fprintf(p.Stderr, "time=\"now\" level=fatal msg=\"Error: no running k3s server, or permission denied\"\n")
		return 1
	}
	switch {
	case args[0] == "kubectl" && len(args) == 4 && args[1] == "get" && args[2] == "--raw":
		return kubectlRaw(ctx, p, n, args[3])
	case args[0] == "token" && len(args) > 1:
		return tokens(p, n.cluster, args[1], args[2:])
	case args[0] == "etcd-snapshot" && len(args) > 1:
		return snapshots(ctx, p, n, args[1], args[2:])
	}
	fmt.Fprintf(p.Stderr, "k3s %s: not simulated\n", strings.Join(args, " "))
	return 1
}
