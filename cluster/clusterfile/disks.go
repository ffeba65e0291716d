package clusterfile

import (
	"cmp"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/vms"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distro"
)

// disksSection completes and checks a node's disks.
type disksSection struct{ *resolver }

const (
	osDisk      = "os"
	leastOSDisk = 8 * spec.GiB
	maxSerial   = 20 // how much of a serial a SCSI disk shows in the guest
)

func (r disksSection) disks(n *spec.Node) {
	storage := cmp.Or(n.Storage, r.defaultStorage())
	size := 60 * spec.GiB
	switch {
	case n.Boot != nil && n.Boot.Template != "":
		size = 0 // the template's
	case n.FromDiscs():
		size = vms.WindowsDisk
	case n.Boot != nil:
		size = 20 * spec.GiB
	case n.Role == spec.Agent:
		size = 100 * spec.GiB
	}
	n.OSDisk = spec.OSDisk{DiskOptions: spec.DiskOptions{Storage: storage, Size: size, SSD: spec.On, Discard: spec.On, IOThread: spec.On}}
	var further []spec.Disk
	for i := range n.Disks {
		d := &n.Disks[i]
		r.storageName(&d.Storage)
		d.Storage = cmp.Or(d.Storage, storage)
		if d.Size%spec.GiB != 0 {
			r.Wrong(&d.Size, fmt.Sprintf("disk size %s is not a whole number of GiB", d.Size), fmt.Sprintf("write %dGiB", d.Size.GiB()))
		}
		if d.Name == osDisk {
			if !r.IsSet(&d.Size) {
				d.Size = size
			}
			n.OSDisk = spec.OSDisk{DiskOptions: d.DiskOptions}
			r.osDisk(d, n.Boot == nil)
			continue
		}
		r.disk(d)
		if d.Volume != "" {
			r.volume(n, d)
		}
		further = append(further, *d)
	}
	if len(further) > 14 {
		r.Wrong(&n.Disks, fmt.Sprintf("the node has %d disks besides os", len(further)), "write 14 or fewer")
	}
	r.mounts(n.Disks)
	n.Disks = further
}

func (r disksSection) osDisk(d *spec.Disk, node bool) {
	if node && d.Size < leastOSDisk {
		r.Wrong(&d.Size, fmt.Sprintf("a disk of %s is too small for %s, K3s and images", d.Size,
			distro.ByName(r.spec.Image.Distribution).Title), "write 20GiB or more")
	}
	r.unset("the node boots from the disk os", &d.Mount, &d.FS, &d.Role, &d.Volume)
}

// unset refuses what cannot be set.
func (r disksSection) unset(why string, fields ...any) {
	for _, at := range fields {
		if r.IsSet(at) {
			r.Wrong(at, why+": this cannot be set", "remove it")
		}
	}
}

// volume completes and checks an existing volume, which one node has.
func (r disksSection) volume(n *spec.Node, d *spec.Disk) {
	r.unset(fmt.Sprintf("disk %s is an existing volume", d.Name), &d.Size, &d.Storage, &d.FS, &d.Role)
	if what, cure := d.VolumeProblem(n.Host); what != "" {
		r.Wrong(&d.Volume, what, cure)
	} else if other, twice := r.volumes[d.Volume]; twice {
		r.Wrong(&d.Volume, fmt.Sprintf("volume %s is given to %s and to %s", d.Volume, other, n.Name), "give it to one node")
	}
	r.volumes[d.Volume] = n.Name
	d.Storage, d.Size, d.FS, d.Role = d.VolumeStorage(), 0, "", spec.RoleData
}

func (r disksSection) disk(d *spec.Disk) {
	name := d.Name
	switch {
	case !decode.Matches(`^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$`, name) || len(name) > maxSerial:
		r.Wrong(d, fmt.Sprintf("%q cannot be a disk's name, which is also its serial", name), "write at most 20 letters, digits, hyphens and underscores")
	case d.Volume != "": // it has a size
	case !r.IsSet(&d.Size):
		r.Wrong(&d.Size, fmt.Sprintf("disk %s has no size", name), "write size: 500GiB")
	case d.Size <= 0:
		r.Wrong(&d.Size, fmt.Sprintf("disk %s has size 0", name), "write size: 500GiB")
	}
	switch {
	case d.Mount == "" && r.IsSet(&d.FS):
		r.Wrong(&d.FS, fmt.Sprintf("disk %s has a filesystem but no mount", name), "write mount: /data, or remove fs")
	case d.Mount != "" && !decode.IsPlace(d.Mount):
		r.Wrong(&d.Mount, fmt.Sprintf("%q cannot be a mount point", d.Mount), "write an absolute path that is not /, of letters, digits and . _ - ~ @ = , :, e.g. /scratch")
	}
	if d.Name == spec.RoleScratch && !r.IsSet(&d.Role) {
		d.Role = spec.RoleScratch
	}
	if d.Mount == "" {
		d.FS = ""
	}
}

// mounts reports two disks at one place.
func (r disksSection) mounts(disks []spec.Disk) {
	seen := map[string]string{}
	for i := range disks {
		e := &disks[i]
		if m := e.Mount; m != "" {
			if other, ok := seen[m]; ok {
				r.Wrong(&e.Mount, fmt.Sprintf("disks %s and %s are both mounted on %s", other, e.Name, m), "mount one of them elsewhere")
			}
			seen[m] = e.Name
		}
	}
}
