// Labd is the lab: `labd serve` runs it. Nobody needs to call it by hand: lab:start does.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/cps-gpu/homelab/sim/lab/site"
)

func main() {
	if err := site.Run(context.Background(), os.Args[1:], site.Parts{}); err != nil {
		fmt.Fprintln(os.Stderr, "labd:", err)
		os.Exit(1)
	}
}
