// Package sdn answers for the controllers and fabrics of Proxmox's SDN. It keeps them, and
// no packet follows them.
package sdn
