//go:build mage

// GPU Kubernetes at home and in the lab, on Proxmox: one file, one command.
package main

import (
	"embed"
	"os"

	//mage:import
	"github.com/cps-gpu/homelab/targets"
)

// source has the targets for developers of homelab.
//
//go:embed *.go
var source embed.FS

var _ = targets.Judge(os.Args[1:], source)
