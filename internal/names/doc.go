// Package names has the names of a cluster's objects on Proxmox VE (tags, files, templates,
// mappings), and checks whether a name belongs to the cluster.
package names
