package pvesim

import (
	"slices"
	"strconv"
	"strings"
)

// Backups are not made here; what is asked of them is refused, or finds none.

// keeping is what a call, or a storage's configuration, says of which backups stay.
func (c *call) keeping(st *storage) error {
	switch {
	case !slices.Contains(st.Content, "backup"):
		return die("storage '%s' does not support backups", st.Name)
	case !c.p.has("prune-backups") && st.Config["prune-backups"] == "":
		return die("no prune-backups options configured for storage '%s'", st.Name)
	}
	return st.ready()
}

func (c *call) prunable() (any, error) {
	st, err := c.storage()
	if err == nil {
		err = c.keeping(st)
	}
	if err != nil {
		return nil, err
	}
	return []any{}, nil
}

// pruneBackups needs the right to all backups, or to those of one machine.
func (c *call) pruneBackups() (any, error) {
	vmid, id := c.param("vmid"), c.param("storage")
	st, missing := c.storage()
	if missing == nil {
		if err := c.mayBackups(st, vmid); err != nil {
			return nil, err
		}
	}
	if vmid != "" {
		id = vmid + "@" + id
	}
	return c.startTask("prunebackups", id, func(worker) error {
		if missing != nil {
			return missing
		}
		return c.keeping(st)
	})
}

// mayBackups checks the right to the backups of a machine, or to all of them.
func (c *call) mayBackups(st *storage, vmid string) error {
	if vmid == "" {
		return c.s.need(c.who, "/storage/"+st.Name, "Datastore.Allocate")
	}
	if err := c.s.need(c.who, "/storage/"+st.Name, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	return c.s.need(c.who, "/vms/"+vmid, "VM.Backup")
}

// inBackup is a file within a backup: only those of a backup server can be looked into.
func (c *call) inBackup() (any, error) {
	st, err := c.storage()
	if err != nil {
		return nil, err
	}
	store, name, full := strings.Cut(c.param("volume"), ":")
	switch {
	case full && store != st.Name:
		return nil, badParam("volume", "storage ID mismatch ("+store+" != "+st.Name+").")
	case !full:
		name = "backup/" + strings.TrimPrefix(store, "backup/")
	}
	v, err := st.parseVolume(name)
	switch {
	case err != nil:
		return nil, err
	case v.content != "backup":
		return nil, die("unable to use volume %s:%s - content type needs to be 'backup'", st.Name, name)
	}
	if !c.s.can(c.who, "/storage/"+st.Name, "Datastore.Allocate") {
		if err := c.mayBackups(st, v.owner); err != nil {
			return nil, err
		}
	}
	return nil, badParam("storage", "Only PBS storages supported for file-restore.")
}

// importMetadata is what an appliance says of the machine in it; there are none here.
func (c *call) importMetadata() (any, error) {
	st, err := c.storage()
	if err != nil {
		return nil, err
	}
	v, err := st.parseVolume(c.param("volume"))
	if err != nil {
		return nil, err
	}
	if err := c.s.need(c.who, "/storage/"+st.Name, "Datastore.AllocateSpace", "Datastore.Audit"); err != nil {
		return nil, err
	}
	switch {
	case !st.fileBased():
		return nil, die("storage does not support the importer API")
	case v.content != "import":
		return nil, die("invalid content type '%s'", v.content)
	case v.format != "ova" && v.format != "ovf":
		return nil, die("invalid format")
	}
	return nil, die("%s: no appliance is in it", st.path(c.param("volume")))
}

func backupHandlers() map[string]handler {
	return map[string]handler{
		"GET /cluster/backup-info/not-backed-up": (*call).notBackedUp,
		"GET /nodes/{node}/vzdump/defaults":      (*call).backupDefaults,
		"GET /nodes/{node}/vzdump/extractconfig": (*call).configInBackup,
	}
}

// notBackedUp are the machines that no job backs up: all, as there are no jobs.
func (c *call) notBackedUp() (any, error) {
	out := []any{}
	for _, v := range c.s.sorted() {
		if !c.s.can(c.who, "/vms/"+strconv.Itoa(v.id), "VM.Audit") {
			continue
		}
		out = append(out, map[string]any{"vmid": v.id, "type": "qemu", "name": v.wanted()["name"]})
	}
	return out, nil
}

// backupDefaults are what a backup would be like without options (PVE/VZDump.pm,
// read_vzdump_defaults).
func (c *call) backupDefaults() (any, error) {
	out := map[string]any{"all": 0, "bwlimit": 0, "compress": "0", "fleecing": map[string]any{"enabled": 0}, "ionice": 7, "lockwait": 180,
		"mailnotification": "always", "mode": "snapshot", "notification-mode": "auto", "performance": map[string]any{"max-workers": 16, "pbs-entries-max": 1048576},
		"pigz": 0, "prune-backups": "keep-all=1", "quiet": 0, "remove": 1, "stdexcludes": 1, "stop": 0, "stopwait": 10, "storage": "local", "zstd": 1}
	if c.p.has("storage") {
		out["storage"] = c.param("storage")
	}
	name, _ := out["storage"].(string)
	if err := c.s.need(c.who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	st := c.host().storages[name]
	switch {
	case st == nil:
		return nil, die("storage '%s' does not exist", name)
	case !slices.Contains(st.Content, "backup"):
		return nil, die("can't use storage '%s' for backups - wrong content type", name)
	}
	if st.fileBased() {
		out["dumpdir"] = st.dir() + "/dump"
	}
	if keep := st.Config["prune-backups"]; keep != "" {
		out["prune-backups"] = keep
	}
	if !c.s.can(c.who, "/nodes/"+c.param("node"), "Sys.Audit") {
		delete(out, "dumpdir")
		delete(out, "ionice")
	}
	return out, nil
}

func (c *call) configInBackup() (any, error) {
	volid := c.param("volume")
	st, name := c.host().volume(volid)
	if st == nil {
		store, _, _ := strings.Cut(volid, ":")
		return nil, die("storage '%s' does not exist", store)
	}
	v, err := st.parseVolume(name)
	switch {
	case err != nil:
		return nil, err
	case v.content != "backup":
		return nil, die("unable to use volume %s - content type needs to be 'backup'", volid)
	}
	if !c.s.can(c.who, "/storage/"+st.Name, "Datastore.Allocate") {
		if err := c.mayBackups(st, v.owner); err != nil {
			return nil, err
		}
	}
	return nil, die("volume '%s' does not exist", volid)
}
