package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// load is the memory that VMs need on a host.
type load struct {
	total  proxmox.Size // of the host
	ours   proxmox.Size // of all requested machines
	others proxmox.Size // of all running guests of other owners
	names  []string     // those other guests
}

func (s *observation) load(w *Requirements, host string) load {
	l := load{total: s.byHost[host].memory(s, host)}
	for _, vm := range w.vmsOn(host) {
		l.ours += vm.Memory
	}
	for _, r := range s.residents.is {
		if r.Host != host || !r.Running || s.isRequested(w, r) {
			continue
		}
		size := r.Memory
		if r.Container {
			size = r.Used // its maximum is not reserved for it
		}
		l.others += size
		l.names = append(l.names, fmt.Sprintf("%s %s", cmp.Or(r.Name, fmt.Sprint(r.VMID)), size.Approximate()))
	}
	return l
}

// isRequested reports whether a resident is a requested machine. A VM that only carries our tag counts
// as one as long as no machine of ours has its name, because none is created beside it.
func (s *observation) isRequested(w *Requirements, r proxmox.Resident) bool {
	own := s.marked.is[r.VMID] || slices.Contains(r.Tags, w.Owner) && s.machine(r.Name) == nil
	return own && slices.ContainsFunc(w.VMs, func(vm VM) bool { return vm.Name == r.Name })
}

// checkPromises adds up the memory and disks that are promised to VMs. Proxmox does not check this:
// if memory runs out, a VM fails to start or is killed, and if a thin pool is full, all its VMs
// stop. The memory of a VM with a passed-through device is pinned as a whole.
func checkPromises(w *Requirements, s *observation) []Finding {
	return append(checkMemory(w, s), checkDisks(w, s)...)
}

func checkMemory(w *Requirements, s *observation) []Finding {
	return eachHost(w, s, func(h Host, seen *hostObservation) []Finding {
		if s.residents.err != nil {
			return []Finding{unobservedFinding(h.Name, s.residents.err)}
		}
		l := s.load(w, h.Name)
		const cure = "give machines less memory, put some on another host, or shut others down; passed-through GPUs pin all of a VM's memory"
		switch {
		case l.total == 0:
			return []Finding{unobservedFinding(h.Name, seen.figuresError(h.Name))}
		case l.ours > l.total:
			return []Finding{errorf(h.Name, cure, "machines on %s need %s of memory and it has %s", h.Name, l.ours.Approximate(),
				l.total.Approximate())}
		case l.ours+l.others <= l.total:
			return nil
		}
		say := warnf // memory that is not pinned can be swapped and shared, and running VMs have theirs already
		if need, _ := s.memoryToStart(w, h.Name); need > 0 && (seen.status.err != nil || need > seen.status.is.Available) {
			say = errorf
		}
		return []Finding{say(h.Name, cure, "machines on %s need %s of memory, others that run there have %s (%s), and it has %s",
			h.Name, l.ours.Approximate(), l.others.Approximate(), firstNames(l.names), l.total.Approximate())}
	})
}

// pool is a storage with the space that is promised on it.
type pool struct {
	storage  proxmox.Storage
	where    string
	disks    proxmox.Size // existing disks, at their full size
	promised proxmox.Size // disks to create, and the growth of others
	copied   proxmox.Size // by whole clones, at once
	unlisted error
}

// pools adds up the disks. A storage that hosts share counts once.
func pools(w *Requirements, s *observation) []pool {
	var out []pool
	at := map[string]int{}
	for _, h := range w.Hosts {
		seen := s.byHost[h.Name]
		for _, name := range w.disks(h.Name) {
			st := seen.storage(name)
			if st == nil || st.Total == 0 {
				continue
			}
			key := h.Name + "/" + name
			if st.Shared {
				key = name
			}
			i, known := at[key]
			if !known {
				i = len(out)
				at[key] = i
				out = append(out, pool{storage: *st, where: h.Name, unlisted: seen.volumes[name].err})
				for _, v := range seen.volumes[name].is {
					out[i].disks += v.Size
				}
			}
			out[i].promised += newDisks(w, s, h, name)
			out[i].copied += copies(w, s, h, name)
		}
	}
	return out
}

// templateRoom is the size of a template's disks while it does not exist yet: those of cloud images
// have 3 to 3.5 GiB.
const templateRoom = 4 * proxmox.GiB

// firmware is the size of the disks with a VM's firmware variables and TPM state, of 4 MiB each.
const firmware = 8 * proxmox.MiB

// newDisks returns by how much the disks on a storage grow. The present size of existing machines'
// disks is among the volumes already.
func newDisks(w *Requirements, s *observation, h Host, storage string) (sum proxmox.Size) {
	for _, vm := range w.vmsOn(h.Name) {
		missing := s.machine(vm.Name) == nil
		if missing && len(vm.Disks) > 0 && vm.Disks[0].Storage == storage {
			sum += firmware
		}
		for i, d := range vm.Disks {
			have := s.disk(vm.Name, i, d)
			switch {
			case missing && d.Storage == storage:
				sum += d.Size
			case have.Storage == storage:
				sum += max(0, d.Size-have.Size)
			}
		}
	}
	baked := slices.ContainsFunc(s.residents.is, func(r proxmox.Resident) bool {
		return r.Template && r.Host == h.Name && slices.Contains(r.Tags, w.Owner)
	})
	if h.Template == storage && !baked && len(s.byHost[h.Name].clones.is) > 0 {
		sum += templateRoom + firmware
	}
	return sum
}

// disk returns a machine's disk as it is now: the first by its slot, others by their serials.
func (s *observation) disk(name string, i int, want proxmox.Disk) proxmox.Disk {
	vm := s.vms[name].is
	if vm == nil {
		return proxmox.Disk{}
	}
	at := slices.IndexFunc(vm.Disks, func(d proxmox.Disk) bool {
		return i == 0 && d.Slot == want.Slot || i > 0 && d.Serial != "" && d.Serial == want.Serial
	})
	if at < 0 {
		return proxmox.Disk{Storage: want.Storage}
	}
	return vm.Disks[at]
}

// copies returns how much whole clones write to a storage at once. Of thin disks that is at most the
// template's size, whatever they may grow to.
func copies(w *Requirements, s *observation, h Host, storage string) (sum proxmox.Size) {
	for _, vm := range w.vmsOn(h.Name) {
		c, missing := s.byHost[h.Name].clones.is[vm.Name]
		if missing && c.Mode == proxmox.FullClone && len(vm.Disks) > 0 && vm.Disks[0].Storage == storage {
			sum += cmp.Or(c.Size, templateRoom)
		}
	}
	return sum
}

func checkDisks(w *Requirements, s *observation) []Finding {
	if s.residents.err != nil {
		return nil // unknown which disks exist; checkMemory reports that
	}
	var out []Finding
	for _, p := range pools(w, s) {
		st := p.storage
		switch {
		case p.unlisted != nil:
			out = append(out, unobservedFinding(st.Name, p.unlisted))
		case st.IsThick() && p.promised > st.Free:
			out = append(out, errorf(st.Name, "write smaller disks or another storage; lvmthin takes only what is written",
				"new disks on storage %q of %s take %s at once, and %s is free", st.Name, p.where, p.promised.Approximate(), st.Free.Approximate()))
		case !st.IsThick() && p.copied > st.Free:
			out = append(out, warnf(st.Name, "remove unneeded data, or name another storage",
				"whole copies of the template on storage %q of %s take up to %s at once, and %s is free", st.Name, p.where, p.copied.Approximate(),
				st.Free.Approximate()))
		case !st.IsThick() && p.disks+p.promised > st.Total:
			out = append(out, warnf(st.Name,
				"thin disks allow that until they are full, and then all VMs on it stop: watch it, or write smaller ones",
				"disks on storage %q of %s may grow to %s%s and it has %s, %s free",
				st.Name, p.where, (p.disks+p.promised).Approximate(), p.fresh(), st.Total.Approximate(), st.Free.Approximate()))
		}
	}
	return out
}

// fresh says how much of a pool's promised space is for disks that do not exist yet.
func (p pool) fresh() string {
	if p.promised == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s of them new)", p.promised.Approximate())
}

// memoryToStart returns the VMs with GPUs that do not run yet, and how much memory they pin when they
// start.
func (s *observation) memoryToStart(w *Requirements, host string) (need proxmox.Size, vms []VM) {
	for _, vm := range w.gpus(host) {
		if r := s.machine(vm.Name); r == nil || !r.Running {
			need += vm.Memory
			vms = append(vms, vm)
		}
	}
	return need, vms
}

// checkStart compares the memory that machines with GPUs pin at start with the memory that is free
// now. A start that waits for memory "times out", after 30 s, or a second per GiB above 30, times
// four (qemu-server, PVE/QemuServer/Helpers.pm, config_aware_timeout).
func checkStart(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	need, vms := s.memoryToStart(w, h.Name)
	var names []string
	var longest VM
	for _, vm := range vms {
		names = append(names, vm.Name)
		if vm.Memory > longest.Memory {
			longest = vm
		}
	}
	l := s.load(w, h.Name)
	switch {
	case need == 0 || s.residents.err == nil && l.total > 0 && l.ours+l.others > l.total: // PX21 reports it
		return nil
	case seen.status.err != nil:
		return []Finding{unobservedFinding(h.Name, seen.status.err)}
	case need <= seen.status.is.Available:
		return nil
	}
	limit := proxmox.StartTimeout(longest.Memory, longest.GPUs.Count, len(longest.NICs), longest.RootOnly["hugepages"] != "")
	return []Finding{warnf(h.Name, zfsCure(seen),
		"starting %s pins %s of memory, and %s of %s is free on %s now; Proxmox gives %s %s to start",
		firstNames(names), need.Approximate(), seen.status.is.Available.Approximate(), l.total.Approximate(), h.Name, longest.Name, limit)}
}

// zfsCure says how to shrink ZFS's cache, which usually uses the memory that no guest has.
func zfsCure(h *hostObservation) string {
	cure := "shut down machines that are not needed"
	if slices.ContainsFunc(h.storages.is, func(s proxmox.Storage) bool { return strings.HasPrefix(s.Type, "zfs") }) {
		cure += "; ZFS's cache shrinks slowly, so limit it (here to 8 GiB): `echo $((8<<30)) > /sys/module/zfs/parameters/zfs_arc_max`"
	}
	return cure
}
