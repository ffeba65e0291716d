package config

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/storages"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Sizes of the small disks, on file storages and on others.
const (
	efiSize       = 528 * model.KiB
	efiSizeBlock  = model.MiB
	tpmSize       = 4 * model.MiB
	cloudInitSize = 4 * model.MiB
	// imageSize is what a cloud image is inside: Ubuntu's.
	imageSize = model.Size(3.5 * float64(model.GiB))
)

// MayStore checks what drives refer to: storages and the rights to them
// (PVE/API2/Qemu.pm, check_storage_access).
func MayStore(c *world.Call, opts map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		var err error
		switch {
		case world.IsDrive(k):
			err = mayDriveStore(c, k, c.State.Props(k, opts[k]))
		case world.UnusedKey.MatchString(k):
			err = storages.PermitVolume(c, opts[k])
		case k == "vmstatestorage":
			err = access.Need(c.State, c.Who, "/storage/"+opts[k], "Datastore.AllocateSpace")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func mayDriveStore(c *world.Call, key string, d map[string]string) error {
	file := d["file"]
	switch {
	case file == "", file == "none", strings.HasSuffix(file, ":cloudinit"):
	case file == "cdrom":
		if err := access.Need(c.State, c.Who, "/", "Sys.Console"); err != nil {
			return err
		}
	case world.NewDisk.MatchString(file) && !world.IsCDROM(d):
		if err := NeedSpace(c, world.NewDisk.FindStringSubmatch(file)[1]); err != nil {
			return err
		}
	case strings.HasPrefix(file, "/"):
		if err := c.OnlyRoot(); err != nil {
			return err
		}
	default:
		if err := storages.PermitVolume(c, file); err != nil {
			return err
		}
		if st, rest := c.Host().Volume(file); st != nil {
			if parts, err := st.ParseVolume(rest); err == nil && parts.Content != "images" && parts.Content != "iso" {
				return answer.BadParam(key, "content type needs to be 'images' or 'iso'")
			}
		}
	}
	if from := d["import-from"]; from != "" {
		return checkImport(c, key, from)
	}
	return nil
}

// NeedSpace asks for the right to allocate on a storage, and for one that takes images.
func NeedSpace(c *world.Call, storeName string) error {
	if !access.Can(c.State, c.Who, "/storage/"+storeName, "Datastore.AllocateSpace") {
		return access.Refuse("/storage/"+storeName, "Datastore.AllocateSpace")
	}
	all, _ := c.State.StoragesByName()
	st := all[storeName]
	if st == nil {
		return answer.Die("storage '%s' does not exist", storeName)
	}
	if c.Route != world.CreateRoute { // whose task finds out
		if err := c.Host().StoreReady(storeName); err != nil {
			return err
		}
	}
	if !slices.Contains(st.Content, "images") {
		return answer.BadParam("storage", fmt.Sprintf("storage '%s' does not support vm images", storeName))
	}
	return nil
}

func checkImport(c *world.Call, key, from string) error {
	if strings.HasPrefix(from, "/") {
		return c.OnlyRoot()
	}
	name, rest, _ := strings.Cut(from, ":")
	kind, _, _ := strings.Cut(rest, "/")
	if kind == "iso" || kind == "vztmpl" || kind == "snippets" || kind == "backup" {
		return answer.BadParam(key, fmt.Sprintf("%s has wrong type '%s' - needs to be 'images' or 'import'", from, kind))
	}
	st := c.Host().Stores[name]
	if st == nil {
		return answer.Die("storage '%s' does not exist", name)
	}
	if v := st.Volumes[rest]; v != nil && v.Owner != 0 {
		return access.Need(c.State, c.Who, "/vms/"+strconv.Itoa(v.Owner), "VM.Clone")
	}
	return storages.MayVolume(c.State, c.Who, st, &world.Volume{Content: "import"}, 0)
}

// MakeDrive brings the volume of a drive into being where its value asks for one
// and returns the value as the configuration has it.
func MakeDrive(w world.Worker, v *world.VM, key, value string, made *storages.Allocations) (string, error) {
	h := w.State.Hosts[v.Node]
	d := w.State.Props(key, value)
	file := d["file"]
	switch {
	case file == "none" || file == "cdrom":
		delete(d, "size")
		return w.State.PrintProps(key, d), nil
	case strings.HasSuffix(file, ":cloudinit"):
		for _, k := range world.Drives(v.PendingConf()) {
			if k != key && world.IsCloudInit(w.State.Props(k, v.PendingConf()[k])["file"]) {
				return "", answer.Die("%s - cloud-init drive is already attached at '%s'", key, k)
			}
		}
		st := h.Stores[strings.TrimSuffix(file, ":cloudinit")]
		if st == nil {
			return "", answer.Die("storage '%s' does not exist", strings.TrimSuffix(file, ":cloudinit"))
		}
		format := ""
		if st.FileBased() {
			format = cmp.Or(d["format"], "qcow2")
		}
		name := st.Full(v.ID, fmt.Sprintf("vm-%d-cloudinit", v.ID), format)
		if err := storages.Allocate(w, st, name, v.ID, int64(cloudInitSize), made); err != nil {
			return "", err
		}
		delete(d, "format")
		d["file"], d["media"] = st.Name+":"+name, "cdrom"
		out := w.State.PrintProps(key, d)
		w.Log("%s: successfully created disk '%s'", key, out)
		return out, nil
	case d["import-from"] != "":
		return importDrive(w, v, key, d, made)
	case world.NewDisk.MatchString(file):
		return emptyDrive(w, v, key, d, made)
	}
	return attachDrive(w, h, key, d)
}

func attachDrive(w world.Worker, h *world.Host, key string, d map[string]string) (string, error) {
	_, vol, err := h.Lookup(d["file"])
	if err != nil {
		return "", err
	}
	if vol.Content == "iso" && !world.IsCDROM(d) {
		return "", answer.Die("explicit 'media=cdrom' is required for iso images")
	}
	d["size"] = schema.FormatSize(vol.Size)
	return w.State.PrintProps(key, d), nil
}

func emptyDrive(w world.Worker, v *world.VM, key string, d map[string]string, made *storages.Allocations) (string, error) {
	m := world.NewDisk.FindStringSubmatch(d["file"])
	st := w.State.Hosts[v.Node].Stores[m[1]]
	size, format := (schema.ParseSize(m[2]+"G")+1023)/1024*1024, st.Formats()[0] // whole KiB
	switch {
	case key == "tpmstate0":
		size = int64(tpmSize)
	case key == "efidisk0" && st.FileBased():
		size = int64(efiSize)
	case key == "efidisk0":
		size = int64(efiSizeBlock)
	}
	if d["format"] != "" {
		format = d["format"]
	}
	name := st.NewName(v.ID, "vm", format)
	if err := storages.Allocate(w, st, name, v.ID, size, made); err != nil {
		return "", err
	}
	if key == "efidisk0" { // the template of the firmware's variables is copied
		w.Log("transferred 0.0 B of %s (0.00%%)", storages.FormatBytes(size))
		for range 2 {
			w.Log("transferred %s of %s (100.00%%)", storages.FormatBytes(size), storages.FormatBytes(size))
		}
	}
	name = asBase(st, v, name)
	delete(d, "format")
	d["file"], d["size"] = st.Name+":"+name, schema.FormatSize(size)
	out := w.State.PrintProps(key, d)
	w.Log("%s: successfully created disk '%s'", key, out)
	return out, nil
}

// asBase makes a new disk of a template one that can be cloned, and returns its name.
func asBase(st *world.Storage, v *world.VM, name string) string {
	vol := st.Volumes[name]
	if !v.Template() || vol == nil || !st.Has("template", name, false) {
		return name
	}
	dir, last := path.Split(name)
	delete(st.Volumes, name)
	vol.Name = dir + "base-" + strings.TrimPrefix(last, "vm-")
	st.Volumes[vol.Name] = vol
	return vol.Name
}

// importDrive copies a volume into a new disk.
func importDrive(w world.Worker, v *world.VM, key string, d map[string]string, made *storages.Allocations) (string, error) {
	h := w.State.Hosts[v.Node]
	from := d["import-from"]
	source, err := source(h, from)
	if err != nil && h.IsImage(from) { // its size is asked for before anything else
		w.Log("%s", err)
		return "", answer.Die("cannot import from '%s' - could not get size of %s", from, from)
	}
	if err != nil {
		return "", err
	}
	byPath := strings.HasPrefix(from, "/")
	if !byPath {
		w.Log("create full clone of drive %s(%s)", driveOf(w.State, source.Owner, from), from)
	}
	st := h.Stores[world.NewDisk.FindStringSubmatch(d["file"])[1]]
	format := d["format"]
	switch {
	case format != "":
	case byPath:
		format = st.FormatFor("raw")
	default:
		format = st.FormatFor(source.Format)
	}
	name := st.NewName(v.ID, "vm", format)
	size := source.Size
	if source.Owner == 0 {
		size = insideSize(source.Data)
	}
	if err := storages.Allocate(w, st, name, v.ID, size, made); err != nil {
		return "", err
	}
	if !byPath {
		w.Log("allocated target volume '%s:%s'", st.Name, name)
	}
	if err := storages.CopyData(w, st, size); err != nil {
		return "", err
	}
	vol := st.Volumes[name]
	switch {
	case source.Owner != 0:
		if below := source.Contents(); below != nil {
			vol.Disk = below.Clone()
		}
	default:
		w.State.WithoutLock(func() { vol.Disk, _ = w.State.Options.Hypervisor.Open(source.Data) })
	}
	name = asBase(st, v, name)
	delete(d, "import-from")
	delete(d, "format")
	d["file"], d["size"] = st.Name+":"+name, schema.FormatSize(size)
	out := w.State.PrintProps(key, d)
	w.Log("%s: successfully created disk '%s'", key, out)
	return out, nil
}

// driveOf is the drive of a VM that has a volume, with a blank behind it.
func driveOf(s *world.State, vmid int, volid string) string {
	if v := s.VMs[vmid]; v != nil {
		for _, k := range world.Drives(v.Conf) {
			if s.Props(k, v.Conf[k])["file"] == volid {
				return k + " "
			}
		}
	}
	return ""
}

// source finds what is to be imported, by volume ID or, for root, by path.
func source(h *world.Host, from string) (*world.Volume, error) {
	if strings.HasPrefix(from, "/") {
		for _, st := range h.Stores {
			for name, v := range st.Volumes {
				if st.Path(name) == from {
					return v, nil
				}
			}
		}
		return nil, answer.Die("failed to stat '%s'", from)
	}
	st, rest := h.Volume(from)
	if v := st.Volumes[rest]; v != nil {
		return v, nil
	}
	return nil, answer.Die("failed to stat '%s'", st.Path(rest))
}

// insideSize is the size of the disk in an image file: what a real qcow2 header
// says, and otherwise that of Ubuntu's image.
func insideSize(data []byte) int64 {
	if world.IsQCOW2(data) && len(data) >= 72 && data[4] == 0 && data[7] >= 2 && data[7] <= 3 {
		var n int64
		for _, b := range data[24:32] {
			n = n<<8 | int64(b)
		}
		if n > 0 && n < int64(64*model.TiB) {
			return n
		}
	}
	if !world.IsQCOW2(data) && len(data) > 0 {
		return int64(len(data))
	}
	return int64(imageSize)
}
