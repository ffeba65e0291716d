// Package pvehost is a Proxmox VE host from inside: its disk, its boot loaders, and which
// driver gets a device when it boots.
package pvehost
