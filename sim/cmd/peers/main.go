// Peers runs other projects' test suites against the simulated Proxmox VE. It exits with 1 if a
// test fails unexpectedly, or passes although the list expects a failure. It runs in the
// repository's root.
//
// The suites were written for real hosts, independently of this simulator, so they find what our
// own recordings and tests do not. Each is a Go module at a pinned version; it is copied, and runs
// against a pvesim process. Failures are compared with expected.yaml, where each has a reason.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	dir := flag.String("dir", "", "the folder of copies, logs and binaries, kept between runs")
	only := flag.String("only", "", "run the suites whose names begin so")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runSuites(ctx, options{*dir, *only, os.Stdout}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
