package config

import (
	"path"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func resizeDisk(c *world.Call) (any, error) {
	if err := RootOption(c, "skiplock"); err != nil {
		return nil, err
	}
	disk, size, digest := c.Param("disk"), c.Param("size"), c.Param("digest")
	return c.StartTask("resize", strconv.Itoa(c.VMID()), func(w world.Worker) error {
		v, unlock, err := Begin(c, w, Change{digest: digest})
		if err != nil {
			return err
		}
		defer unlock()
		return resize(w, c.Who, v, disk, size)
	})
}

// resize asks for the right to the storage in the task, where it has no status of its own.
func resize(w world.Worker, who world.Identity, v *world.VM, key, size string) error {
	value := v.Conf[key]
	d := w.State.Props(key, value)
	switch {
	case value == "":
		return answer.Die("disk '%s' does not exist", key)
	case !strings.Contains(d["file"], ":"):
		return answer.Die("unable to parse volume ID '%s'", d["file"])
	case world.IsCDROM(d):
		return answer.Die("you can't resize a cdrom")
	}
	st, vol, err := w.State.Hosts[v.Node].Lookup(d["file"])
	if err != nil {
		return err
	}
	if err := access.Need(w.State, who, "/storage/"+st.Name, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	want := schema.ParseSize(size)
	if strings.HasPrefix(size, "+") {
		want += vol.Size
	}
	switch {
	case want < vol.Size:
		return answer.Die("shrinking disks is not supported")
	case want == vol.Size:
		return nil
	case st.FileBased() && vol.Format == "vmdk":
		return answer.Die("can't resize this image format")
	case v.Running && (key == "efidisk0" || key == "tpmstate0"):
		return answer.Die("no block node inserted for drive '%s'", key)
	}
	if err := st.CanGrow(vol, want); err != nil {
		return err
	}
	if err := w.Sleep(w.State.Options.Timing.Configure); err != nil {
		return err
	}
	if st.FileBased() && strings.HasPrefix(path.Base(vol.Name), "base-") { // nobody may write to it any more
		file, allocated := st.Path(vol.Name), map[string]string{"qcow2": "metadata", "raw": "off"}[vol.Format]
		w.Log("qemu-img: Could not open '%s': Could not open '%s': Operation not permitted", file, file)
		return answer.Die("command '/usr/bin/qemu-img resize '--preallocation=%s' -f %s %s %d' failed: exit code 1",
			allocated, vol.Format, file, want)
	}
	vol.Size = (want + 1023) / 1024 * 1024
	d["size"] = schema.FormatSize(want)
	v.Set(key, w.State.PrintProps(key, d))
	replug(w.State, v)
	if !v.Running {
		w.Log("Image resized.")
	}
	return nil
}
