package spec

import (
	"strconv"
	"strings"
)

const providerScheme = "proxmox://"

// ProviderID is the ID of a VM's node in Kubernetes, in the form that Proxmox's cloud controller and storage
// driver know (GetProviderIDFromID, sergelogvinov/proxmox-cloud-controller-manager, pkg/provider).
func ProviderID(region string, vmid int) string {
	return providerScheme + region + "/" + strconv.Itoa(vmid)
}

// RegionOf returns the region in an ID that [ProviderID] made, and whether it is one.
func RegionOf(id string) (string, bool) {
	rest, ok := strings.CutPrefix(id, providerScheme)
	region, vmid, both := strings.Cut(rest, "/")
	_, err := strconv.Atoi(vmid)
	return region, ok && both && err == nil
}
