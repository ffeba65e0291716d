package clusterfile

import (
	"cmp"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distro"
)

const (
	leastOSDisk = 8 * spec.GiB
	maxSerial   = 20 // how much of a serial a SCSI disk shows in the guest
)

func (r *resolver) disks(n *spec.Node, raw *decode.Node) {
	storage := cmp.Or(raw.Storage, r.defaultStorage())
	size := 60 * spec.GiB
	if n.Role == spec.Agent {
		size = 100 * spec.GiB
	}
	n.OSDisk = spec.OSDisk{DiskOptions: spec.DiskOptions{Storage: storage, Size: size, SSD: true, Discard: true, IOThread: true}}
	for _, e := range raw.Disks {
		d, o := e.Value, spec.DiskOptions{
			Storage: cmp.Or(e.Value.Storage, storage), Size: or(e.Value.Size, 0),
			SSD: or(e.Value.SSD, true), Discard: or(e.Value.Discard, true), IOThread: or(e.Value.IOThread, true),
		}
		r.storageName(&d.Storage)
		if o.Size%spec.GiB != 0 {
			r.Wrong(&d.Size, fmt.Sprintf("disk size %s is not a whole number of GiB", o.Size), fmt.Sprintf("write %dGiB", o.Size.GiB()))
		}
		if e.Name == "os" {
			o.Size = or(d.Size, size)
			n.OSDisk = spec.OSDisk{DiskOptions: o}
			r.osDisk(d, o)
			continue
		}
		r.disk(e.Name, d)
		n.Disks = append(n.Disks, spec.Disk{
			DiskOptions: o, Name: e.Name, Mount: d.Mount,
			Role: r.diskRole(e.Name, d), FS: r.diskFS(d),
		})
	}
	if len(n.Disks) > 14 {
		r.Wrong(&raw.Disks, fmt.Sprintf("the node has %d disks besides os", len(n.Disks)), "write 14 or fewer")
	}
	r.mounts(raw)
}

func (r *resolver) osDisk(d *decode.Disk, o spec.DiskOptions) {
	if o.Size < leastOSDisk {
		r.Wrong(&d.Size, fmt.Sprintf("a disk of %s is too small for %s, K3s and images", o.Size, distro.Named(r.spec.Image.Distribution).Title), "write 20GiB or more")
	}
	for _, at := range []any{&d.Mount, &d.FS, &d.Role} {
		if r.IsSet(at) {
			r.Wrong(at, "the node boots from the disk os: this cannot be set", "remove it")
		}
	}
}

func (r *resolver) disk(name string, d *decode.Disk) {
	switch {
	case !matches(`^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$`, name) || len(name) > maxSerial:
		r.Wrong(d, fmt.Sprintf("%q cannot be a disk's name, which is also its serial", name), "write at most 20 letters, digits, hyphens and underscores")
	case d.Size == nil:
		r.Wrong(&d.Size, fmt.Sprintf("disk %s has no size", name), "write size: 500GiB")
	case *d.Size <= 0:
		r.Wrong(&d.Size, fmt.Sprintf("disk %s has size 0", name), "write size: 500GiB")
	}
	switch {
	case d.Mount == "" && r.IsSet(&d.FS):
		r.Wrong(&d.FS, fmt.Sprintf("disk %s has a filesystem but no mount", name), "write mount: /data, or remove fs")
	case d.Mount != "" && !decode.IsPlace(d.Mount):
		r.Wrong(&d.Mount, fmt.Sprintf("%q cannot be a mount point", d.Mount), "write an absolute path that is not /, of letters, digits and . _ - ~ @ = , :, e.g. /scratch")
	}
}

// mounts reports two disks at one place.
func (r *resolver) mounts(raw *decode.Node) {
	seen := map[string]string{}
	for _, e := range raw.Disks {
		if m := e.Value.Mount; m != "" {
			if other, ok := seen[m]; ok {
				r.Wrong(&e.Value.Mount, fmt.Sprintf("disks %s and %s are both mounted on %s", other, e.Name, m), "mount one of them elsewhere")
			}
			seen[m] = e.Name
		}
	}
}

func (r *resolver) diskRole(name string, d *decode.Disk) string {
	if !r.IsSet(&d.Role) && name == spec.RoleScratch {
		return spec.RoleScratch
	}
	return d.Role
}

func (r *resolver) diskFS(d *decode.Disk) string {
	if d.Mount != "" {
		return d.FS
	}
	return ""
}
