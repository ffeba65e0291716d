package storages

import (
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// CopyData is the time that copying so much to a storage takes. Little of a thin disk is
// full; to a thick one, all of it is written.
func CopyData(w world.Worker, to *world.Storage, size int64) error {
	if !to.Thick() {
		size = min(size, int64(2*model.GiB))
	}
	w.Log("transferred 0.0 B of %s (0.00%%)", FormatBytes(size))
	if err := w.Sleep(world.Took(model.Size(size), w.State.Options.Timing.CopyRate)); err != nil {
		return err
	}
	w.Log("transferred %s of %s (100.00%%)", FormatBytes(size), FormatBytes(size))
	return nil
}

// Allocate makes an empty volume, under the storage's lock.
func Allocate(w world.Worker, st *world.Storage, name string, owner int, size int64, made *Allocations) error {
	return AllocateIn(w, st, &world.Volume{Name: name, Content: "images", Format: world.FormatOf(st, name), Size: size, Owner: owner}, w.State.Options.Timing.AllocateDisk, made)
}

// AllocateIn is [Allocate] of what takes so long.
func AllocateIn(w world.Worker, st *world.Storage, vol *world.Volume, takes time.Duration, made *Allocations) error {
	unlock, err := w.LockStorage(st)
	if err != nil {
		return err
	}
	defer unlock()
	if st.Volumes[vol.Name] != nil {
		return answer.Die("unable to create image: disk image '%s' already exists", st.Path(vol.Name))
	}
	if err := st.CanTake(vol); err != nil {
		return err
	}
	if err := w.Sleep(takes); err != nil {
		return err
	}
	if err := imageFits(w, st, vol); err != nil {
		return err
	}
	vol.Made = time.Now()
	if vol.Base != nil {
		vol.Base.Clones++
	}
	st.Volumes[vol.Name] = vol
	if made != nil {
		*made = append(*made, func() { _ = st.Remove(vol.Name) })
	}
	return nil
}

// What an image holds: ext4 addresses 2^32 blocks of 4 KiB in a file, and qcow2's first table, of
// 32 MiB, has entries for 512 MiB each (QEMU, block/qcow2.h, QCOW_MAX_L1_SIZE).
const (
	rawLimit   = 1<<44 - 4096
	qcow2Limit = 1 << 51
)

// imageFits is qemu-img making an image: too large a one fails, and there is none.
func imageFits(w world.Worker, st *world.Storage, vol *world.Volume) error {
	if !st.FileBased() {
		return nil
	}
	if vol.Size >= schema.MaxSize {
		return answer.Die("unable to create image: qemu-img: Invalid image size specified. Must be between 0 and 9223372036854775807.")
	}
	w.Log("Formatting '%s', %s", st.Path(vol.Name), imageOptions(vol))
	hint := ""
	switch {
	case vol.Format == "raw" && vol.Size > rawLimit:
	case vol.Format == "qcow2" && vol.Size > qcow2Limit:
		hint = " (try using a larger cluster size)"
	default:
		return nil
	}
	return answer.Die("unable to create image: qemu-img: %s: The image size is too large for file format '%s'%s", st.Path(vol.Name), vol.Format, hint)
}

// Allocations are volumes that were made for a change, to be removed if it fails.
type Allocations []func()

// Undo removes them, the last first.
func (a Allocations) Undo() {
	for _, f := range slices.Backward(a) {
		f()
	}
}

// imageOptions are what qemu-img says of an image that it makes.
func imageOptions(v *world.Volume) string {
	switch {
	case v.Format == "vmdk":
		return fmt.Sprintf("fmt=vmdk size=%d compat6=off hwversion=undefined", v.Size)
	case v.Format != "qcow2":
		return fmt.Sprintf("fmt=%s size=%d preallocation=off", v.Format, v.Size)
	case v.Base != nil:
		allocated := map[bool]string{true: "metadata", false: "off"}[v.Base.Format == "qcow2"]
		return fmt.Sprintf("fmt=qcow2 cluster_size=131072 extended_l2=on preallocation=%s compression_type=zlib size=%d backing_file=../%s "+
			"backing_fmt=%s lazy_refcounts=off refcount_bits=16", allocated, v.Size, v.Base.OwnName(), v.Base.Format)
	}
	return fmt.Sprintf("fmt=qcow2 cluster_size=65536 extended_l2=off preallocation=metadata compression_type=zlib size=%d lazy_refcounts=off refcount_bits=16", v.Size)
}

// FormatBytes is a size for people (PVE/Format.pm, render_bytes).
func FormatBytes(n int64) string {
	size, unit := float64(n), 0
	for size > 1023 && unit < 4 {
		size, unit = size/1024, unit+1
	}
	return fmt.Sprintf("%.1f %s", size, [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}
