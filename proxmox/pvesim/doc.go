// Package pvesim is a Proxmox VE cluster that fits in a test.
package pvesim
