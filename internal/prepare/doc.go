// Package prepare is what a file asks of Proxmox VE's hosts before a cluster can be made on
// them: the privileges of its API token, the storages, and, through a root shell, the
// settings that GPUs need (IOMMU, vfio). Prep makes and keeps them.
package prepare
