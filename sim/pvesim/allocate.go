package pvesim

import (
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
