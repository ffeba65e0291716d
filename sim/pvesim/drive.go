package pvesim

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Sizes of the small disks, on file storages and on others.
const (
	efiSize       = 528 * KiB
	efiSizeBlock  = MiB
	tpmSize       = 4 * MiB
	cloudInitSize = 4 * MiB
	// imageSize is what a cloud image is inside: Ubuntu's.
	imageSize = Size(3.5 * float64(GiB))
)

// mayStore checks what drives refer to: storages and the rights to them
// (PVE/API2/Qemu.pm, check_storage_access).
func (c *call) mayStore(opts map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		var err error
		switch {
		case isDrive(k):
			err = c.mayDriveStore(k, c.s.props(k, opts[k]))
		case unusedKey.MatchString(k):
			err = c.permitVolume(opts[k])
		case k == "vmstatestorage":
			err = c.s.need(c.who, "/storage/"+opts[k], "Datastore.AllocateSpace")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *call) mayDriveStore(key string, d map[string]string) error {
	file := d["file"]
	switch {
	case file == "", file == "none", strings.HasSuffix(file, ":cloudinit"):
	case file == "cdrom":
		if err := c.s.need(c.who, "/", "Sys.Console"); err != nil {
			return err
		}
	case newDisk.MatchString(file) && !isCDROM(d):
		if err := c.needSpace(newDisk.FindStringSubmatch(file)[1]); err != nil {
			return err
		}
	case strings.HasPrefix(file, "/"):
		if err := c.onlyRoot(); err != nil {
			return err
		}
	default:
		if err := c.permitVolume(file); err != nil {
			return err
		}
		if st, rest := c.host().volume(file); st != nil {
			if parts, err := st.parseVolume(rest); err == nil && parts.content != "images" && parts.content != "iso" {
				return badParam(key, "content type needs to be 'images' or 'iso'")
			}
		}
	}
	if from := d["import-from"]; from != "" {
		return c.checkImport(key, from)
	}
	return nil
}

func (c *call) needSpace(storeName string) error {
	if !c.s.can(c.who, "/storage/"+storeName, "Datastore.AllocateSpace") {
		return refuse("/storage/"+storeName, "Datastore.AllocateSpace")
	}
	all, _ := c.s.storagesByName()
	st := all[storeName]
	if st == nil {
		return die("storage '%s' does not exist", storeName)
	}
	if c.route != createRoute { // whose task finds out
		if err := c.host().storeReady(storeName); err != nil {
			return err
		}
	}
	if !slices.Contains(st.Content, "images") {
		return badParam("storage", fmt.Sprintf("storage '%s' does not support vm images", storeName))
	}
	return nil
}

func (c *call) checkImport(key, from string) error {
	if strings.HasPrefix(from, "/") {
		return c.onlyRoot()
	}
	name, rest, _ := strings.Cut(from, ":")
	kind, _, _ := strings.Cut(rest, "/")
	if kind == "iso" || kind == "vztmpl" || kind == "snippets" || kind == "backup" {
		return badParam(key, fmt.Sprintf("%s has wrong type '%s' - needs to be 'images' or 'import'", from, kind))
	}
	st := c.host().storages[name]
	if st == nil {
		return die("storage '%s' does not exist", name)
	}
	if v := st.volumes[rest]; v != nil && v.owner != 0 {
		return c.s.need(c.who, "/vms/"+strconv.Itoa(v.owner), "VM.Clone")
	}
	return c.s.mayVolume(c.who, st, &volume{content: "import"}, 0)
}

// makeDrive brings the volume of a drive into being where its value asks for one
// and returns the value as the configuration has it.
func (w worker) makeDrive(v *vm, key, value string, made *allocated) (string, error) {
	h := w.s.hosts[v.node]
	d := w.s.props(key, value)
	file := d["file"]
	switch {
	case file == "none" || file == "cdrom":
		delete(d, "size")
		return w.s.printProps(key, d), nil
	case strings.HasSuffix(file, ":cloudinit"):
		for _, k := range drives(v.wanted()) {
			if k != key && isCloudInit(w.s.props(k, v.wanted()[k])["file"]) {
				return "", die("%s - cloud-init drive is already attached at '%s'", key, k)
			}
		}
		st := h.storages[strings.TrimSuffix(file, ":cloudinit")]
		if st == nil {
			return "", die("storage '%s' does not exist", strings.TrimSuffix(file, ":cloudinit"))
		}
		format := ""
		if st.fileBased() {
			format = cmp.Or(d["format"], "qcow2")
		}
		name := st.full(v.id, fmt.Sprintf("vm-%d-cloudinit", v.id), format)
		if err := w.allocate(st, name, v.id, int64(cloudInitSize), made); err != nil {
			return "", err
		}
		delete(d, "format")
		d["file"], d["media"] = st.Name+":"+name, "cdrom"
		out := w.s.printProps(key, d)
		w.log("%s: successfully created disk '%s'", key, out)
		return out, nil
	case d["import-from"] != "":
		return w.importDrive(v, key, d, made)
	case newDisk.MatchString(file):
		return w.emptyDrive(v, key, d, made)
	}
	return w.attachDrive(h, key, d)
}

func (w worker) attachDrive(h *host, key string, d map[string]string) (string, error) {
	_, vol, err := h.lookup(d["file"])
	if err != nil {
		return "", err
	}
	if vol.content == "iso" && !isCDROM(d) {
		return "", die("explicit 'media=cdrom' is required for iso images")
	}
	d["size"] = formatSize(vol.size)
	return w.s.printProps(key, d), nil
}

func (w worker) emptyDrive(v *vm, key string, d map[string]string, made *allocated) (string, error) {
	m := newDisk.FindStringSubmatch(d["file"])
	st := w.s.hosts[v.node].storages[m[1]]
	size, format := (parseSize(m[2]+"G")+1023)/1024*1024, "raw" // whole KiB
	switch {
	case key == "tpmstate0":
		size = int64(tpmSize)
	case key == "efidisk0" && st.fileBased():
		size = int64(efiSize)
	case key == "efidisk0":
		size = int64(efiSizeBlock)
	}
	if d["format"] != "" {
		format = d["format"]
	}
	name := st.newName(v.id, "vm", format)
	if err := w.allocate(st, name, v.id, size, made); err != nil {
		return "", err
	}
	if key == "efidisk0" { // the template of the firmware's variables is copied
		w.log("transferred 0.0 B of %s (0.00%%)", rendered(size))
		for range 2 {
			w.log("transferred %s of %s (100.00%%)", rendered(size), rendered(size))
		}
	}
	name = st.asBase(v, name)
	delete(d, "format")
	d["file"], d["size"] = st.Name+":"+name, formatSize(size)
	out := w.s.printProps(key, d)
	w.log("%s: successfully created disk '%s'", key, out)
	return out, nil
}

// asBase makes a new disk of a template one that can be cloned, and returns its name.
func (st *storage) asBase(v *vm, name string) string {
	vol := st.volumes[name]
	if !v.template() || vol == nil {
		return name
	}
	dir, last := path.Split(name)
	delete(st.volumes, name)
	vol.name = dir + "base-" + strings.TrimPrefix(last, "vm-")
	st.volumes[vol.name] = vol
	return vol.name
}

// importDrive copies a volume into a new disk.
func (w worker) importDrive(v *vm, key string, d map[string]string, made *allocated) (string, error) {
	h := w.s.hosts[v.node]
	from := d["import-from"]
	source, err := h.source(from)
	if err != nil && h.isImage(from) { // its size is asked for before anything else
		w.log("%s", err)
		return "", die("cannot import from '%s' - could not get size of %s", from, from)
	}
	if err != nil {
		return "", err
	}
	byPath := strings.HasPrefix(from, "/")
	if !byPath {
		w.log("create full clone of drive %s(%s)", w.s.driveOf(source.owner, from), from)
	}
	st := h.storages[newDisk.FindStringSubmatch(d["file"])[1]]
	format := d["format"]
	switch {
	case format != "":
	case byPath:
		format = "raw"
	default:
		format = source.format
	}
	name := st.newName(v.id, "vm", format)
	size := source.size
	if source.owner == 0 {
		size = insideSize(source.data)
	}
	if err := w.allocate(st, name, v.id, size, made); err != nil {
		return "", err
	}
	if !byPath {
		w.log("allocated target volume '%s:%s'", st.Name, name)
	}
	if err := w.copyData(size); err != nil {
		return "", err
	}
	vol := st.volumes[name]
	switch {
	case source.owner != 0:
		if below := source.contents(); below != nil {
			vol.disk = below.Clone()
		}
	default:
		w.s.outside(func() { vol.disk, _ = w.s.opts.Hypervisor.Open(source.data) })
	}
	name = st.asBase(v, name)
	delete(d, "import-from")
	delete(d, "format")
	d["file"], d["size"] = st.Name+":"+name, formatSize(size)
	out := w.s.printProps(key, d)
	w.log("%s: successfully created disk '%s'", key, out)
	return out, nil
}

// driveOf is the drive of a VM that has a volume, with a blank behind it.
func (s *state) driveOf(vmid int, volid string) string {
	if v := s.vms[vmid]; v != nil {
		for _, k := range drives(v.conf) {
			if s.props(k, v.conf[k])["file"] == volid {
				return k + " "
			}
		}
	}
	return ""
}

// source finds what is to be imported, by volume ID or, for root, by path.
func (h *host) source(from string) (*volume, error) {
	if strings.HasPrefix(from, "/") {
		for _, st := range h.storages {
			for name, v := range st.volumes {
				if st.path(name) == from {
					return v, nil
				}
			}
		}
		return nil, die("failed to stat '%s'", from)
	}
	st, rest := h.volume(from)
	if v := st.volumes[rest]; v != nil {
		return v, nil
	}
	return nil, die("failed to stat '%s'", st.path(rest))
}

// insideSize is the size of the disk in an image file: what a real qcow2 header
// says, and otherwise that of Ubuntu's image.
func insideSize(data []byte) int64 {
	if isQcow2(data) && len(data) >= 72 && data[4] == 0 && data[7] >= 2 && data[7] <= 3 {
		var n int64
		for _, b := range data[24:32] {
			n = n<<8 | int64(b)
		}
		if n > 0 && n < int64(64*TiB) {
			return n
		}
	}
	if !isQcow2(data) && len(data) > 0 {
		return int64(len(data))
	}
	return int64(imageSize)
}
