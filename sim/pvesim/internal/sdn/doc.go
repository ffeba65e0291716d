// Package sdn answers for the controllers, fabrics and IPAM of Proxmox's SDN. It keeps them, and
// no packet follows them.
package sdn
