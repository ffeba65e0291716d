package storages

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Backups are not made here; what is asked of them is refused, or finds none.

// keeping is what a call, or a storage's configuration, says of which backups stay.
func keeping(c *world.Call, st *world.Storage) error {
	switch {
	case !slices.Contains(st.Content, "backup"):
		return answer.Die("storage '%s' does not support backups", st.Name)
	case !c.Params.Has("prune-backups") && st.Config["prune-backups"] == "":
		return answer.Die("no prune-backups options configured for storage '%s'", st.Name)
	}
	return st.Ready()
}

func prunable(c *world.Call) (any, error) {
	st, err := c.Storage()
	if err == nil {
		err = keeping(c, st)
	}
	if err != nil {
		return nil, err
	}
	return []any{}, nil
}

// pruneBackups needs the right to all backups, or to those of one machine.
func pruneBackups(c *world.Call) (any, error) {
	vmid, id := c.Param("vmid"), c.Param("storage")
	st, missing := c.Storage()
	if missing == nil {
		if err := mayBackups(c, st, vmid); err != nil {
			return nil, err
		}
	}
	if vmid != "" {
		id = vmid + "@" + id
	}
	return c.StartTask("prunebackups", id, func(world.Worker) error {
		if missing != nil {
			return missing
		}
		return keeping(c, st)
	})
}

// mayBackups checks the right to the backups of a machine, or to all of them.
func mayBackups(c *world.Call, st *world.Storage, vmid string) error {
	if vmid == "" {
		return access.Need(c.State, c.Who, "/storage/"+st.Name, "Datastore.Allocate")
	}
	if err := access.Need(c.State, c.Who, "/storage/"+st.Name, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	return access.Need(c.State, c.Who, "/vms/"+vmid, "VM.Backup")
}

// inBackup is a file within a backup: only those of a backup server can be looked into.
func inBackup(c *world.Call) (any, error) {
	st, err := c.Storage()
	if err != nil {
		return nil, err
	}
	store, name, full := strings.Cut(c.Param("volume"), ":")
	switch {
	case full && store != st.Name:
		return nil, answer.BadParam("volume", "storage ID mismatch ("+store+" != "+st.Name+").")
	case !full:
		name = "backup/" + strings.TrimPrefix(store, "backup/")
	}
	v, err := st.ParseVolume(name)
	switch {
	case err != nil:
		return nil, err
	case v.Content != "backup":
		return nil, answer.Die("unable to use volume %s:%s - content type needs to be 'backup'", st.Name, name)
	}
	if !access.Can(c.State, c.Who, "/storage/"+st.Name, "Datastore.Allocate") {
		if err := mayBackups(c, st, v.Owner); err != nil {
			return nil, err
		}
	}
	return nil, answer.BadParam("storage", "Only PBS storages supported for file-restore.")
}

// importMetadata is what an appliance says of the machine in it; there are none here.
func importMetadata(c *world.Call) (any, error) {
	st, err := c.Storage()
	if err != nil {
		return nil, err
	}
	v, err := st.ParseVolume(c.Param("volume"))
	if err != nil {
		return nil, err
	}
	if err := access.Need(c.State, c.Who, "/storage/"+st.Name, "Datastore.AllocateSpace", "Datastore.Audit"); err != nil {
		return nil, err
	}
	switch {
	case !st.FileBased():
		return nil, answer.Die("storage does not support the importer API")
	case v.Content != "import":
		return nil, answer.Die("invalid content type '%s'", v.Content)
	case v.Format != "ova" && v.Format != "ovf":
		return nil, answer.Die("invalid format")
	}
	return nil, answer.Die("%s: no appliance is in it", st.Path(c.Param("volume")))
}

func backupHandlers() map[string]world.Handler {
	return map[string]world.Handler{
		"GET /cluster/backup-info/not-backed-up": notBackedUp,
		"GET /nodes/{node}/vzdump/defaults":      backupDefaults,
		"GET /nodes/{node}/vzdump/extractconfig": configInBackup,
	}
}

// notBackedUp are the machines that no job backs up: all, as there are no jobs.
func notBackedUp(c *world.Call) (any, error) {
	out := []any{}
	for _, v := range c.State.VMsByID() {
		if !access.Can(c.State, c.Who, "/vms/"+strconv.Itoa(v.ID), "VM.Audit") {
			continue
		}
		out = append(out, map[string]any{"vmid": v.ID, "type": "qemu", "name": v.PendingConf()["name"]})
	}
	return out, nil
}

// backupDefaults are what a backup would be like without options (PVE/VZDump.pm,
// read_vzdump_defaults).
func backupDefaults(c *world.Call) (any, error) {
	out := map[string]any{"all": 0, "bwlimit": 0, "compress": "0", "fleecing": map[string]any{"enabled": 0}, "ionice": 7, "lockwait": 180,
		"mailnotification": "always", "mode": "snapshot", "notification-mode": "auto", "performance": map[string]any{"max-workers": 16, "pbs-entries-max": 1048576},
		"pigz": 0, "prune-backups": "keep-all=1", "quiet": 0, "remove": 1, "stdexcludes": 1, "stop": 0, "stopwait": 10, "storage": "local", "zstd": 1}
	if c.Params.Has("storage") {
		out["storage"] = c.Param("storage")
	}
	name, _ := out["storage"].(string)
	if err := access.Need(c.State, c.Who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	st := c.Host().Stores[name]
	switch {
	case st == nil:
		return nil, answer.Die("storage '%s' does not exist", name)
	case !slices.Contains(st.Content, "backup"):
		return nil, answer.Die("can't use storage '%s' for backups - wrong content type", name)
	}
	if st.FileBased() {
		out["dumpdir"] = st.Dir() + "/dump"
	}
	if keep := st.Config["prune-backups"]; keep != "" {
		out["prune-backups"] = keep
	}
	if !access.Can(c.State, c.Who, "/nodes/"+c.Param("node"), "Sys.Audit") {
		delete(out, "dumpdir")
		delete(out, "ionice")
	}
	return out, nil
}

func configInBackup(c *world.Call) (any, error) {
	volid := c.Param("volume")
	st, name := c.Host().Volume(volid)
	if st == nil {
		store, _, _ := strings.Cut(volid, ":")
		return nil, answer.Die("storage '%s' does not exist", store)
	}
	v, err := st.ParseVolume(name)
	switch {
	case err != nil:
		return nil, err
	case v.Content != "backup":
		return nil, answer.Die("unable to use volume %s - content type needs to be 'backup'", volid)
	}
	if !access.Can(c.State, c.Who, "/storage/"+st.Name, "Datastore.Allocate") {
		if err := mayBackups(c, st, v.Owner); err != nil {
			return nil, err
		}
	}
	return nil, answer.Die("volume '%s' does not exist", volid)
}
