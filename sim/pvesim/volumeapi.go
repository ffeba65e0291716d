package pvesim

import (
	"regexp"
	"strconv"
	"strings"
)

// volumeOf finds the volume of a path; it may be named with or without its storage.
func (c *call) volumeOf() (*storage, string, error) {
	st, err := c.storage()
	if err != nil {
		return nil, "", err
	}
	name := c.param("volume")
	if storeName, rest, full := strings.Cut(name, ":"); full {
		if storeName != st.Name {
			return nil, "", badParam("volume", "storage ID mismatch ("+storeName+" != "+st.Name+")\n")
		}
		if name = rest; name == "" {
			return nil, "", badParam("volume", "unable to parse volume ID '"+c.param("volume")+"'\n")
		}
	}
	return st, name, nil
}

// parsedVolume is volumeOf, and what the volume's name tells.
func (c *call) parsedVolume() (st *storage, name string, about volumeParts, err error) {
	if st, name, err = c.volumeOf(); err == nil {
		about, err = st.parseVolume(name)
	}
	return st, name, about, err
}

func (c *call) volumeInfo() (any, error) {
	st, name, about, err := c.parsedVolume()
	if err != nil {
		return nil, err
	}
	if err := c.s.mayVolume(c.who, st, &volume{content: about.content, owner: max(0, atoi(about.owner))}, 0); err != nil {
		return nil, err
	}
	v := st.volumes[name]
	if v == nil {
		return nil, die("volume_size_info on '%s:%s' failed - no format", st.Name, name)
	}
	if about.content == "vztmpl" { // nobody looks into an archive
		about.format = "raw"
	}
	return map[string]any{"path": st.path(name), "size": v.virtualSize(), "used": v.used(), "format": about.format}, nil
}

func (c *call) deleteVolume() (any, error) {
	st, name, about, err := c.parsedVolume()
	if err != nil {
		return nil, err
	}
	id := st.Name
	if about.owner != "" {
		id = about.owner + "@" + id
	}
	if about.content != "backup" {
		about.owner = ""
	}
	if err := c.mayBackups(st, about.owner); err != nil {
		return nil, err
	}
	upid, err := c.startTask("imgdel", id, func(w worker) error {
		if err := st.ready(); err != nil {
			return err
		}
		unlock, err := w.lockStorage(st)
		if err != nil {
			return err
		}
		defer unlock()
		if st.volumes[name] == nil {
			w.log("disk image '%s' does not exist", st.path(name))
		}
		if v := st.volumes[name]; v != nil && v.onNode {
			_ = w.s.hosts[c.param("node")].shell.Disk().Remove(st.path(name)) // gone is gone
		}
		if err := w.erase(st, name); err != nil {
			return err
		}
		w.log("Removed volume '%s:%s'", st.Name, name)
		return nil
	})
	if err != nil || c.p.int("delay", 0) == 0 {
		return upid, err
	}
	return c.finished(upid, c.p.int("delay", 0))
}

// permitVolume checks access to a volume that is to be read or attached.
func (c *call) permitVolume(volid string) error {
	name, rest, _ := strings.Cut(volid, ":")
	st := c.host().storages[name]
	if st == nil {
		return die("storage '%s' does not exist", name)
	}
	if st.fileBased() && !fileVolume.MatchString(rest) {
		return die("unable to parse directory volume name '%s'", rest)
	}
	v := st.volumes[rest]
	if v == nil {
		v = &volume{content: "iso"} // what is not there is known by its name alone
	}
	return c.s.mayVolume(c.who, st, v, c.vmid())
}

// fileVolume are names of volumes on storages of files (PVE/Storage/Plugin.pm, parse_volname).
var fileVolume = regexp.MustCompile(`^((\d+)/\S+(/(\d+)/\S+)?|(iso|vztmpl|backup|snippets|import|rootdir)/[^/]+)$`)

// mayVolume checks the right to read a volume; vmid is the machine that wants it
// (PVE/Storage.pm, check_volume_access).
func (s *state) mayVolume(who identity, st *storage, v *volume, vmid int) error {
	where := "/storage/" + st.Name
	switch {
	case s.can(who, where, "Datastore.Allocate"):
		return nil
	case v.content == "iso" || v.content == "vztmpl" || v.content == "import":
		return s.need(who, where, "Datastore.AllocateSpace", "Datastore.Audit")
	case v.owner != 0 && v.owner == vmid:
		return nil
	case v.owner == 0:
		return die("missing privileges to access %s:%s", st.Name, v.name)
	case v.content == "backup":
		if err := s.need(who, where, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		return s.need(who, "/vms/"+strconv.Itoa(v.owner), "VM.Backup")
	}
	if err := s.need(who, where, "Datastore.Audit"); err != nil {
		return err
	}
	return s.need(who, "/vms/"+strconv.Itoa(v.owner), "VM.Config.Disk")
}
