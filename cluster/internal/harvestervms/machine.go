package harvestervms

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/harvester"
)

// osDisk is the name of the disk that machines boot from.
const osDisk = "os"

// image is what the machines boot: one that the file names by its address, or that Harvester has, which has no URL here.
func (vs *VMs) image() harvester.ImageSpec {
	img := vs.Spec.Image
	if img.Template != "" {
		return harvester.ImageSpec{Name: img.Template}
	}
	digest := cloudinit.Digest([]byte(img.URL), []byte(img.SHA512))
	return harvester.ImageSpec{Name: "homelab-" + img.Release + "-" + digest[:12], URL: img.URL, Checksum: img.SHA512}
}

// machine is the wanted state of a node's VM, without its devices.
func (vs *VMs) machine(n spec.Node) (harvester.VMSpec, error) {
	to := harvester.VMSpec{
		Name: n.Name, Description: n.Description, Cores: n.Cores, Memory: n.Memory, CPUModel: "host-passthrough", Image: vs.image().Name, EFI: true, TPM: n.TPM, Running: true,
		NICs:  []harvester.NIC{{Network: n.Network.Bridge, MAC: n.MAC.String()}},
		Disks: []harvester.Disk{{Name: osDisk, Size: n.OSDisk.Size, StorageClass: n.OSDisk.Storage}},
	}
	for _, card := range n.Networks {
		to.NICs = append(to.NICs, harvester.NIC{Network: card.Bridge, MAC: card.MAC.String()})
	}
	for _, d := range n.Disks {
		to.Disks = append(to.Disks, harvester.Disk{Name: diskName(d), Size: d.Size, StorageClass: d.Storage, Serial: d.Name})
	}
	var err error
	to.UserData, to.NetworkData, err = vs.Seeds.Documents(n)
	return to, err
}

// diskName is that of a disk in Harvester, whose names are DNS labels.
func diskName(d spec.Disk) string { return strings.ToLower(strings.ReplaceAll(d.Name, "_", "-")) }

// requirements is what the file asks of Harvester.
func (vs *VMs) requirements(ctx context.Context) (harvester.Requirements, error) {
	var want harvester.Requirements
	if img := vs.image(); img.URL != "" {
		want.Images = []harvester.ImageSpec{img}
	}
	cards, err := vs.allot(ctx)
	if err != nil {
		return want, err
	}
	for _, n := range vs.Spec.Nodes {
		if !n.OnHarvester {
			continue
		}
		to, err := vs.machine(n)
		if err != nil {
			return want, err
		}
		to.Devices = cards[n.Name].devices
		want.Machines = append(want.Machines, to)
	}
	return want, nil
}

// Data lists what is on a machine that nothing recreates: disks that the file marks as data or does not name.
func (vs *VMs) Data(n spec.Node, vm *harvester.VM) []string {
	var out []string
	for _, d := range vm.Disks {
		named := slices.IndexFunc(n.Disks, func(of spec.Disk) bool { return diskName(of) == d.Name })
		if d.Name != osDisk && (named < 0 || n.Disks[named].Role == spec.RoleData) {
			out = append(out, fmt.Sprintf("disk %s (%s)", d.Name, d.Size))
		}
	}
	return out
}
