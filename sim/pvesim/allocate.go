package pvesim

import (
	"fmt"
	"slices"
	"time"
)

// copyData is the time that copying so much takes. Little of a thin disk is full.
func (w worker) copyData(size int64) error {
	size = min(size, int64(2*GiB))
	w.log("transferred 0.0 B of %s (0.00%%)", rendered(size))
	if err := w.sleep(took(Size(size), w.s.opts.Timing.CopyRate)); err != nil {
		return err
	}
	w.log("transferred %s of %s (100.00%%)", rendered(size), rendered(size))
	return nil
}

// allocate makes an empty volume, under the storage's lock.
func (w worker) allocate(st *storage, name string, owner int, size int64, made *allocated) error {
	return w.allocateIn(st, &volume{name: name, content: "images", format: formatOf(st, name), size: size, owner: owner}, w.s.opts.Timing.AllocateDisk, made)
}

func (w worker) allocateIn(st *storage, vol *volume, takes time.Duration, made *allocated) error {
	unlock, err := w.lockStorage(st)
	if err != nil {
		return err
	}
	defer unlock()
	if st.volumes[vol.name] != nil {
		return die("unable to create image: disk image '%s' already exists", st.path(vol.name))
	}
	if st.usedBytes() >= int64(st.Size) {
		return die("unable to create image: No space left on device")
	}
	if err := w.sleep(takes); err != nil {
		return err
	}
	vol.made = time.Now()
	if vol.base != nil {
		vol.base.clones++
	}
	st.volumes[vol.name] = vol
	if st.fileBased() {
		w.log("Formatting '%s', %s", st.path(vol.name), imageOptions(vol))
	}
	if made != nil {
		*made = append(*made, func() { _ = st.remove(vol.name) })
	}
	return nil
}

// allocated are volumes that were made for a change, to be removed if it fails.
type allocated []func()

func (a allocated) undo() {
	for _, f := range slices.Backward(a) {
		f()
	}
}

// imageOptions are what qemu-img says of an image that it makes.
func imageOptions(v *volume) string {
	switch {
	case v.format == "vmdk":
		return fmt.Sprintf("fmt=vmdk size=%d compat6=off hwversion=undefined", v.size)
	case v.format != "qcow2":
		return fmt.Sprintf("fmt=%s size=%d preallocation=off", v.format, v.size)
	case v.base != nil:
		allocated := map[bool]string{true: "metadata", false: "off"}[v.base.format == "qcow2"]
		return fmt.Sprintf("fmt=qcow2 cluster_size=131072 extended_l2=on preallocation=%s compression_type=zlib size=%d backing_file=../%s "+
			"backing_fmt=%s lazy_refcounts=off refcount_bits=16", allocated, v.size, v.base.ownName(), v.base.format)
	}
	return fmt.Sprintf("fmt=qcow2 cluster_size=65536 extended_l2=off preallocation=metadata compression_type=zlib size=%d lazy_refcounts=off refcount_bits=16", v.size)
}

// rendered is a size for people (PVE/Format.pm, render_bytes).
func rendered(n int64) string {
	size, unit := float64(n), 0
	for size > 1023 && unit < 4 {
		size, unit = size/1024, unit+1
	}
	return fmt.Sprintf("%.1f %s", size, [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}
