//go:build mage

package main

import "github.com/magefile/mage/mg"

// Host is a Proxmox VE host, before there is a cluster on it.
type Host mg.Namespace
