// Package sdn answers for the zones, virtual networks and IPAM of Proxmox's SDN. They are the
// model's: machines join them, and nobody makes or changes one.
package sdn
