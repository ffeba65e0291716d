package main

import (
	"os"

	"github.com/cps-gpu/homelab/lab/component"
)

func main() {
	if status, ok := component.Run(os.Args[1:]); ok {
		os.Exit(status)
	}
}
