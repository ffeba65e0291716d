package traffic

import (
	"path"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Volumes has the contents of volumes: those of shared storage in one place for all nodes,
// those of a node's own folder on that node only.
type Volumes struct {
	mu    sync.Mutex
	disks map[string]*guest.Disk
}

// NewVolumes makes an empty store.
func NewVolumes() *Volumes { return &Volumes{disks: map[string]*guest.Disk{}} }

// Disk returns the contents at a place, see [VolumePlace].
func (v *Volumes) Disk(place string) *guest.Disk {
	v.mu.Lock()
	defer v.mu.Unlock()
	d, ok := v.disks[place]
	if !ok {
		d = guest.NewDisk()
		v.disks[place] = d
	}
	return d
}

// Forget deletes the contents of a place and below it.
func (v *Volumes) Forget(place string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name := range v.disks {
		if name == place || strings.HasPrefix(name, place+"/") {
			delete(v.disks, name)
		}
	}
}

// NFSPlace is a folder of an NFS server.
func NFSPlace(server, folder string) string { return "nfs://" + server + path.Clean("/"+folder) }

// NodePlace is a folder of a node.
func NodePlace(node, folder string) string { return "node://" + node + path.Clean("/"+folder) }

// VolumePlace says where the contents of a persistent volume are for a pod on a node.
func VolumePlace(pv *corev1.PersistentVolume, node string) string {
	source := pv.Spec.PersistentVolumeSource
	switch {
	case source.NFS != nil:
		return NFSPlace(source.NFS.Server, source.NFS.Path)
	case source.HostPath != nil:
		return NodePlace(node, source.HostPath.Path)
	case source.Local != nil:
		return NodePlace(node, source.Local.Path)
	case source.CSI != nil && source.CSI.VolumeAttributes["server"] != "":
		a := source.CSI.VolumeAttributes
		return NFSPlace(a["server"], path.Join(a["share"], a["subdir"]))
	case source.CSI != nil:
		return "csi://" + source.CSI.Driver + "/" + source.CSI.VolumeHandle
	default:
		return "pv://" + pv.Name
	}
}
