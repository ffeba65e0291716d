// Command homelab has all commands of homelab, for clusters of Talos machines too: files with distribution: talos.
//
//	go -C talos build -o ~/bin/homelab ./cmd/homelab
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/magefiles/targets"
	"github.com/cps-gpu/homelab/talos/internal/talosnodes"
)

func main() { os.Exit(command(context.Background(), os.Args[1:])) }

func command(ctx context.Context, args []string) int {
	c := &cobra.Command{
		Use: "homelab", Short: "From a bare Proxmox VE host with NVIDIA cards to a verified Kubernetes cluster, on Talos Linux too", Version: session.BuildVersion(),
	}
	c.SetVersionTemplate("homelab {{.Version}}, with Talos\n")
	targets.AddCommands(c) //nolint:contextcheck // the commands get it from cobra
	ctx = targets.WithDistribution(ctx, talosnodes.Maker(&talosnodes.Keeper{}))
	return targets.Execute(ctx, c, args) //nolint:contextcheck // the commands get it from cobra
}
