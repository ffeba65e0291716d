// Labd is the lab: `labd serve` runs it. Nobody needs to call it by hand: lab:start does.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/cps-gpu/homelab/lab/plane"
	"github.com/cps-gpu/homelab/lab/plane/simulated"
	"github.com/cps-gpu/homelab/lab/site"
)

func main() {
	err := site.Run(context.Background(), os.Args[1:], site.Parts{
		Control: func(_, _ string, _ *slog.Logger) plane.Start { return simulated.Start },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "labd:", err)
		os.Exit(1)
	}
}
