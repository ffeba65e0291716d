// Package names says what a cluster's things are called on Proxmox VE (tags, files,
// templates, mappings), and whether a name there is one of the cluster's.
package names
