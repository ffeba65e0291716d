// Coverage compares the simulated Proxmox VE with Proxmox's API schema. It exits with 1 if the
// simulator lacks a method that the product calls. It runs in the repository's root.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/cps-gpu/homelab/sim/conform"
)

func main() {
	r, err := conform.Coverage(".")
	if err == nil {
		err = errors.Join(r.Print(os.Stdout), r.Err())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
