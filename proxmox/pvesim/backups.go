package pvesim

import (
	"slices"
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
	st, err := c.storage()
	if err != nil {
		return nil, err
	}
	vmid := c.param("vmid")
	if err := c.mayBackups(st, vmid); err != nil {
		return nil, err
	}
	id := st.Name
	if vmid != "" {
		id = vmid + "@" + id
	}
	return c.startTask("prunebackups", id, func(worker) error { return c.keeping(st) })
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
