// Labd-kubernetes is the lab with what is real in it: a control plane of Kubernetes for simulated
// VMs, and a network for real ones. It does what labd does, and starts itself again as each of the
// components. Nobody needs to call it by hand: lab:start does.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/lab/kubernetes/component"
	"github.com/cps-gpu/homelab/sim/lab/lan"
	"github.com/cps-gpu/homelab/sim/lab/plane"
	"github.com/cps-gpu/homelab/sim/lab/plane/real"
	"github.com/cps-gpu/homelab/sim/lab/site"
)

func main() {
	ctx := context.Background()
	if status, ok := component.Run(ctx, os.Args[1:]); ok {
		os.Exit(status)
	}
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "labd-kubernetes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "scratch" {
		return scratch(ctx, args[1:], os.Stdin, os.Stdout)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return site.Run(ctx, args, site.Parts{
		Control: func(dir, logs string, log *slog.Logger) plane.Start {
			return real.Starter(real.Options{Dir: dir, Logs: logs, Exe: exe, Log: log})
		},
		LAN: func(ctx context.Context, g labctl.Guests) (site.LAN, error) {
			o := lan.Options{Prefix: g.Network, Gateway: g.Gateway}
			if g.Internet {
				o.LeadOut()
			}
			return lan.New(ctx, o)
		},
	})
}
