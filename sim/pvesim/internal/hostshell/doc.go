// Package hostshell lets root log in to a node. Proxmox's own programs there do what the
// API does.
package hostshell
