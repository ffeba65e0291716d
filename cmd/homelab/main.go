// Command homelab makes a folder for a cluster of your own.
//
//	go run github.com/cps-gpu/homelab/cmd/homelab@latest new my-cluster
//
// All else is done in that folder, with go tool mage.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: homelab new FOLDER

It makes a folder for a cluster of your own, with a go.mod, a magefile and a README.
All else is done there: go tool mage cluster:init`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func command(ctx context.Context, args []string) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
		fmt.Println(usage)
		return 0
	}
	if len(args) != 2 || args[0] != "new" || args[1] == "" || args[1][0] == '-' {
		fmt.Fprintln(os.Stderr, usage)
		return 3
	}
	from, err := thisVersion(ctx)
	if err == nil {
		err = newFolder(ctx, args[1], from)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("Made %s. Next:\n  cd %s\n  go tool mage cluster:init\n", args[1], args[1])
	return 0
}
