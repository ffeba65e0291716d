//go:build mage

// GPU Kubernetes at home and in the lab, on Proxmox: one file, one command.
package main

import (
	"os"

	//mage:import
	"github.com/cps-gpu/homelab/magefiles/targets"
)

var _ = targets.Main(os.Args[1:])
