// Package schema says what parameters, and sections of configuration files, may be. It
// holds Proxmox's own schema and checks values against it, with Proxmox's words.
package schema
