package pvesim

import (
	"path"
	"strconv"
	"strings"
)

func (c *call) resizeDisk() (any, error) {
	if err := c.rootOption("skiplock"); err != nil {
		return nil, err
	}
	disk, size, digest := c.param("disk"), c.param("size"), c.param("digest")
	return c.startTask("resize", strconv.Itoa(c.vmid()), func(w worker) error {
		v, unlock, err := c.begin(w, change{digest: digest})
		if err != nil {
			return err
		}
		defer unlock()
		return w.resize(c.who, v, disk, size)
	})
}

// resize asks for the right to the storage in the task, where it has no status of its own.
func (w worker) resize(who identity, v *vm, key, size string) error {
	value := v.conf[key]
	d := w.s.props(key, value)
	switch {
	case value == "":
		return die("disk '%s' does not exist", key)
	case !strings.Contains(d["file"], ":"):
		return die("unable to parse volume ID '%s'", d["file"])
	case isCDROM(d):
		return die("you can't resize a cdrom")
	}
	st, vol, err := w.s.hosts[v.node].lookup(d["file"])
	if err != nil {
		return err
	}
	if err := w.s.need(who, "/storage/"+st.Name, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	want := parseSize(size)
	if strings.HasPrefix(size, "+") {
		want += vol.size
	}
	switch {
	case want < vol.size:
		return die("shrinking disks is not supported")
	case want == vol.size:
		return nil
	case st.fileBased() && vol.format == "vmdk":
		return die("can't resize this image format")
	case v.running && (key == "efidisk0" || key == "tpmstate0"):
		return die("no block node inserted for drive '%s'", key)
	}
	if err := w.sleep(w.s.opts.Timing.Configure); err != nil {
		return err
	}
	if st.fileBased() && strings.HasPrefix(path.Base(vol.name), "base-") { // nobody may write to it any more
		file, allocated := st.path(vol.name), map[string]string{"qcow2": "metadata", "raw": "off"}[vol.format]
		w.log("qemu-img: Could not open '%s': Could not open '%s': Operation not permitted", file, file)
		return die("command '/usr/bin/qemu-img resize '--preallocation=%s' -f %s %s %d' failed: exit code 1", allocated, vol.format, file, want)
	}
	vol.size = (want + 1023) / 1024 * 1024
	d["size"] = formatSize(want)
	v.set(key, w.s.printProps(key, d))
	w.s.replug(v)
	if !v.running {
		w.log("Image resized.")
	}
	return nil
}
