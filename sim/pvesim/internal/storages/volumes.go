package storages

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// volumeOf finds the volume of a path; it may be named with or without its storage.
func volumeOf(c *world.Call) (*world.Storage, string, error) {
	st, err := c.Storage()
	if err != nil {
		return nil, "", err
	}
	name := c.Param("volume")
	if storeName, rest, full := strings.Cut(name, ":"); full {
		if storeName != st.Name {
			return nil, "", answer.BadParam("volume", "storage ID mismatch ("+storeName+" != "+st.Name+")\n")
		}
		if name = rest; name == "" {
			return nil, "", answer.BadParam("volume", "unable to parse volume ID '"+c.Param("volume")+"'\n")
		}
	}
	return st, name, nil
}

// parsedVolume is volumeOf, and what the volume's name tells.
func parsedVolume(c *world.Call) (st *world.Storage, name string, about world.VolumeParts, err error) {
	if st, name, err = volumeOf(c); err == nil {
		about, err = st.ParseVolume(name)
	}
	return st, name, about, err
}

func volumeInfo(c *world.Call) (any, error) {
	st, name, about, err := parsedVolume(c)
	if err != nil {
		return nil, err
	}
	if err := MayVolume(c.State, c.Who, st, &world.Volume{Content: about.Content, Owner: max(0, schema.Atoi(about.Owner))}, 0); err != nil {
		return nil, err
	}
	v := st.Volumes[name]
	if v == nil {
		return nil, answer.Die("volume_size_info on '%s:%s' failed - no format", st.Name, name)
	}
	if about.Content == "vztmpl" { // nobody looks into an archive
		about.Format = "raw"
	}
	return map[string]any{"path": st.Path(name), "size": v.VirtualSize(), "used": st.Takes(v), "format": about.Format}, nil
}

func deleteVolume(c *world.Call) (any, error) {
	st, name, about, err := parsedVolume(c)
	if err != nil {
		return nil, err
	}
	id := st.Name
	if about.Owner != "" {
		id = about.Owner + "@" + id
	}
	if about.Content != "backup" {
		about.Owner = ""
	}
	if err := mayBackups(c, st, about.Owner); err != nil {
		return nil, err
	}
	upid, err := c.StartTask("imgdel", id, func(w world.Worker) error {
		if err := st.Ready(); err != nil {
			return err
		}
		unlock, err := w.LockStorage(st)
		if err != nil {
			return err
		}
		defer unlock()
		if st.Volumes[name] == nil {
			w.Log("disk image '%s' does not exist", st.Path(name))
		}
		if v := st.Volumes[name]; v != nil && v.OnNode {
			_ = w.State.Hosts[c.Param("node")].Shell.Disk().Remove(st.Path(name)) // gone is gone
		}
		if err := w.Erase(st, name); err != nil {
			return err
		}
		w.Log("Removed volume '%s:%s'", st.Name, name)
		return nil
	})
	if err != nil || c.Params.Int("delay", 0) == 0 {
		return upid, err
	}
	return c.WaitForTask(upid, c.Params.Int("delay", 0))
}

// PermitVolume checks access to a volume that is to be read or attached.
func PermitVolume(c *world.Call, volid string) error {
	name, rest, _ := strings.Cut(volid, ":")
	st := c.Host().Stores[name]
	if st == nil {
		return answer.Die("storage '%s' does not exist", name)
	}
	if st.FileBased() && !fileVolume.MatchString(rest) {
		return answer.Die("unable to parse directory volume name '%s'", rest)
	}
	v := st.Volumes[rest]
	if v == nil {
		v = &world.Volume{Content: "iso"} // what is not there is known by its name alone
	}
	return MayVolume(c.State, c.Who, st, v, c.VMID())
}

// fileVolume are names of volumes on storages of files (PVE/Storage/Plugin.pm, parse_volname).
var fileVolume = regexp.MustCompile(`^((\d+)/\S+(/(\d+)/\S+)?|(iso|vztmpl|backup|snippets|import|rootdir)/[^/]+)$`)

// MayVolume checks the right to read a volume; vmid is the machine that wants it
// (PVE/Storage.pm, check_volume_access).
func MayVolume(s *world.State, who world.Identity, st *world.Storage, v *world.Volume, vmid int) error {
	where := "/storage/" + st.Name
	switch {
	case access.Can(s, who, where, "Datastore.Allocate"):
		return nil
	case v.Content == "iso" || v.Content == "vztmpl" || v.Content == "import":
		return access.Need(s, who, where, "Datastore.AllocateSpace", "Datastore.Audit")
	case v.Owner != 0 && v.Owner == vmid:
		return nil
	case v.Owner == 0:
		return answer.Die("missing privileges to access %s:%s", st.Name, v.Name)
	case v.Content == "backup":
		if err := access.Need(s, who, where, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		return access.Need(s, who, "/vms/"+strconv.Itoa(v.Owner), "VM.Backup")
	}
	if err := access.Need(s, who, where, "Datastore.Audit"); err != nil {
		return err
	}
	return access.Need(s, who, "/vms/"+strconv.Itoa(v.Owner), "VM.Config.Disk")
}
