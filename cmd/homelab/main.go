// Command homelab makes a folder for a cluster of your own, and prints a script that completes
// its targets in a shell.
//
//	go run github.com/cps-gpu/homelab/cmd/homelab@latest new my-cluster
//	go run github.com/cps-gpu/homelab/cmd/homelab@latest completion bash
//
// Everything else is done in that folder, with go tool mage.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: homelab new FOLDER
       homelab completion bash|zsh|fish

new creates a folder for a cluster of your own, with a go.mod, a magefile and a README.
Everything else happens there: go tool mage cluster:init

completion prints a script that completes targets and flags of "go tool mage" and "mage".
For bash: homelab completion bash > ~/.homelab.bash, and add "source ~/.homelab.bash" to ~/.bashrc`

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
	if len(args) == 2 && args[0] == "completion" {
		if err := completion(os.Stdout, args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
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
