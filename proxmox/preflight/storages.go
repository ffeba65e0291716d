package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// disks lists the storages of a host that hold VM disks, each once.
func (w *Requirements) disks(host string) []string {
	var out []string
	for _, h := range w.Hosts {
		for _, u := range h.Storages {
			if h.Name == host && u.Content == "images" && !slices.Contains(out, u.Storage) {
				out = append(out, u.Storage)
			}
		}
	}
	return out
}

func (h *hostObservation) storage(name string) *proxmox.Storage {
	for i, s := range h.storages.is {
		if s.Name == name {
			return &h.storages.is[i]
		}
	}
	return nil
}

// full is the free space below which a storage counts as full: no disk or image fits.
const full = proxmox.GiB

// isoRoom is the space for first-boot ISOs, which have a few hundred KiB each.
const isoRoom = 64 * proxmox.MiB

// room returns how much free space a storage of a host needs for all that is put on it.
func (h Host) room(storage string) proxmox.Size {
	if slices.ContainsFunc(h.Storages, func(u StorageUse) bool { return u.Storage == storage && u.Content != "iso" }) {
		return full
	}
	return isoRoom
}

// checkStorages checks whether storages exist and have enough free space. Proxmox lists only those
// that the token may see (pve-manager, PVE/API2/Storage/Status.pm).
func checkStorages(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	var names []string
	for _, st := range seen.storages.is {
		names = append(names, st.Name)
	}
	if len(names) == 0 {
		return []Finding{errorf(h.Name, "grant it Datastore.Audit on /storage",
			"host %s shows no storage at all: the token may not see them", h.Name)}
	}
	var out []Finding
	told := map[string]bool{}
	for _, u := range h.Storages {
		st := seen.storage(u.Storage)
		if told[u.Storage] && st != nil {
			continue
		}
		told[u.Storage] = true
		switch {
		case st == nil:
			out = append(out, errorf(u.Storage,
				fmt.Sprintf("name one of them, or create it (pvesm add); if it exists, the token may not see it, which needs Datastore.Audit or Datastore.AllocateSpace on /storage/%s", u.Storage), "host %s shows no storage %q for %s; it shows %s", h.Name, u.Storage, u.Purpose, strings.Join(names, ", ")))
		case !st.Enabled && !st.Active:
			out = append(out, errorf(u.Storage,
				fmt.Sprintf("name a storage of %s, or let it have this one (pvesm set %s --nodes LIST); if it is disabled: `pvesm set %s --disable 0`", h.Name, printable.Word(u.Storage), printable.Word(u.Storage)),
				"storage %q, for %s, is disabled, or is not one of %s", u.Storage, u.Purpose, h.Name))
		case !st.Active:
			out = append(out, errorf(u.Storage,
				"its server is away, or its pool or volume group is not there: `pvesm status --storage "+u.Storage+"`",
				"storage %q on %s does not answer", u.Storage, h.Name))
		case st.Total > 0 && st.Free < h.room(u.Storage):
			say := errorf
			if s.brief {
				say = warnf // nothing is created
			}
			out = append(out, say(u.Storage, "remove unneeded data, or name another storage", "storage %q on %s is full: %s of %s is free",
				u.Storage, h.Name, st.Free.Approximate(), st.Total.Approximate()))
		case st.Total > 0 && st.Free < st.Total/20:
			out = append(out, warnf(u.Storage, "remove unneeded data: a thin disk without room stops its VM",
				"storage %q on %s is nearly full: %s of %s is free", u.Storage, h.Name, st.Free.Approximate(), st.Total.Approximate()))
		}
	}
	return out
}

// checkContents checks whether storages accept the content that they must hold. Proxmox refuses an
// upload or an import elsewhere, and never accepts an upload of snippets (pve-storage,
// PVE/API2/Storage/Status.pm, upload).
func checkContents(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	var out []Finding
	lacks := map[string][]string{}
	for _, u := range h.Storages { // the command replaces the list, so it names all content that is wanted
		st := seen.storage(u.Storage)
		if why, cure := diskProblem(st, u); why != "" {
			out = append(out, errorf(u.Storage, cure, "%s; it is named for %s", why, u.Purpose))
			continue
		}
		if st != nil && !slices.Contains(st.Content, u.Content) && !slices.Contains(lacks[u.Storage], u.Content) {
			lacks[u.Storage] = append(lacks[u.Storage], u.Content)
		}
	}
	told := map[string]bool{}
	for _, u := range h.Storages {
		key := u.Storage + "/" + u.Content
		if told[key] || !slices.Contains(lacks[u.Storage], u.Content) {
			continue
		}
		told[key] = true
		out = append(out, errorf(u.Storage, contentCure(*seen.storage(u.Storage), u.Content, lacks[u.Storage]),
			"storage %q on %s does not take content %q, for %s", u.Storage, h.Name, u.Content, u.Purpose))
	}
	return out
}

// diskProblem says why a storage cannot be used for disks, whatever content it takes.
func diskProblem(st *proxmox.Storage, u StorageUse) (why, cure string) {
	if st == nil || u.Content != "images" {
		return "", ""
	}
	if u.Claims && st.Type == "cifs" {
		// CreateVolume, pkg/csi/controller.go of sergelogvinov/proxmox-csi-plugin.
		return st.Name + " is SMB/CIFS, which the storage driver refuses", "name another storage under storage.proxmox"
	}
	return st.DiskProblem()
}

// disksOnly reports whether a storage has a type that holds no files: Proxmox refuses any other
// content there (pve-storage, PVE/Storage/*Plugin.pm, plugindata).
func disksOnly(storage string) bool {
	return slices.Contains([]string{"lvm", "lvmthin", "zfspool", "zfs", "rbd", "iscsi", "iscsidirect"}, storage)
}

// contentCure returns the command that adds the missing content types to a storage and keeps its
// present ones.
func contentCure(st proxmox.Storage, content string, lacks []string) string {
	if content != "images" && disksOnly(st.Type) {
		return fmt.Sprintf("name a storage that holds files (a directory, NFS, CIFS, …): %s takes disks only", st.Type)
	}
	all := filter(st.Content, func(c string) bool { return c != "" && c != "none" })
	return fmt.Sprintf("run on the host: `pvesm set %s --content %s`", printable.Word(st.Name), printable.Word(strings.Join(append(all, lacks...), ",")))
}

// checkVolumes says what the caller says about the existing volumes of a host's VMs.
func checkVolumes(_ *Requirements, _ *observation, h Host, seen *hostObservation) []Finding {
	return problems(h, seen.existing)
}
