// Command homelab has all commands of homelab, and makes a folder for a cluster of your own.
//
//	go install github.com/cps-gpu/homelab/cmd/homelab@latest
//	homelab cluster up --report=page.html
//	homelab new my-cluster
//
// `go tool mage cluster:up -report=page.html` in such a folder is the same, with the version that its go.mod names.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/magefiles/targets"
)

func main() { os.Exit(command(context.Background(), os.Args[1:])) }

func command(ctx context.Context, args []string) int {
	return targets.Execute(ctx, root(), args) //nolint:contextcheck // the commands get it from cobra
}

// root is the program: the verbs that targets have, and its own.
func root() *cobra.Command {
	const own = "This program"
	c := &cobra.Command{
		Use:   "homelab",
		Short: "From a bare Proxmox VE host with NVIDIA cards to a verified Kubernetes cluster",
		Long: `homelab makes a verified Kubernetes cluster of Proxmox VE hosts with
NVIDIA cards. The file cluster.yaml of the folder says what it is; without one,
the lab plays an example.`,
		Version: session.BuildVersion(),
	}
	c.SetVersionTemplate("homelab {{.Version}}\n")
	targets.AddCommands(c)
	c.AddGroup(&cobra.Group{ID: own, Title: own + ":"})
	c.AddCommand(&cobra.Command{
		Use: "version", Short: "show the version, and how it was built", GroupID: own, Args: cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), "homelab", session.BuildVersion()) },
	}, &cobra.Command{
		Use: "new FOLDER", Short: "make a folder for a cluster of your own, with targets of your own", GroupID: own, Args: cobra.ExactArgs(1),
		Long: "new makes a folder with a go.mod, a magefile and a README. There, go tool mage has these commands as targets, and yours.",
		RunE: func(c *cobra.Command, args []string) error { return makeFolder(c.Context(), args[0]) },
	})
	c.SetCompletionCommandGroupID(own)
	c.SetHelpCommandGroupID(own)
	return c
}

func makeFolder(ctx context.Context, dir string) error {
	from, err := ownVersion(ctx)
	if err == nil {
		err = newFolder(ctx, dir, from)
	}
	if err != nil {
		return targets.Fail(err)
	}
	fmt.Printf("Made %s. Next:\n  cd %s\n  go tool mage cluster:init\n", dir, dir)
	return nil
}
