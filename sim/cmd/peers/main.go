// Peers runs other projects' test suites against the simulated Proxmox VE. It exits with 1 if a
// test fails unexpectedly, or passes although the list expects a failure. It runs in the
// repository's root.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cps-gpu/homelab/sim/peers"
)

func main() {
	dir := flag.String("dir", "", "the folder of copies, logs and binaries, kept between runs")
	only := flag.String("only", "", "run the suites whose names begin so")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := peers.Run(ctx, peers.Options{Root: ".", Dir: *dir, Only: *only, Out: os.Stdout}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
