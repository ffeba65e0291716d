package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/machine"
)

// load is what a host is to carry in memory.
type load struct {
	total  proxmox.Size // that the host has
	ours   proxmox.Size // of all machines that are asked for
	others proxmox.Size // of everybody else's that run
	who    []string     // they
}

func (s *seen) load(w *Want, host string) load {
	l := load{total: s.on[host].memory(s, host)}
	for _, vm := range w.on(host) {
		l.ours += vm.Memory
	}
	for _, r := range s.residents.is {
		if r.Host != host || !r.Running || s.wanted(w, r) {
			continue
		}
		size := r.Memory
		if r.Container {
			size = r.Used // what it may have at most is nothing that it was promised
		}
		l.others += size
		l.who = append(l.who, fmt.Sprintf("%s %s", cmp.Or(r.Name, fmt.Sprint(r.VMID)), size.About()))
	}
	return l
}

// wanted reports whether a resident is a machine that is asked for. One that carries our
// tag alone is counted so while none of ours has its name: none is made beside it.
func (s *seen) wanted(w *Want, r proxmox.Resident) bool {
	own := s.marked.is[r.VMID] || slices.Contains(r.Tags, w.Owner) && s.ours(w, r.Name) == nil
	return own && slices.ContainsFunc(w.VMs, func(vm VM) bool { return vm.Name == r.Name })
}

// checkPromises adds up what is promised of memory and disks. Proxmox does not: a VM
// fails to start, or is killed, when memory is gone, and thin disks stop all VMs of a
// pool when it is full. Memory of a VM with a passed-through device is pinned whole.
func checkPromises(w *Want, s *seen) []Finding {
	return append(checkMemory(w, s), checkDisks(w, s)...)
}

func checkMemory(w *Want, s *seen) []Finding {
	return each(w, s, func(h Host, seen *hostSeen) []Finding {
		if s.residents.err != nil {
			return []Finding{notSeen(h.Name, s.residents.err)}
		}
		l := s.load(w, h.Name)
		const cure = "give machines less memory, put some on another host, or shut others down; passed-through GPUs pin all of a VM's memory"
		switch {
		case l.total == 0:
			return []Finding{notSeen(h.Name, seen.whyNoFigures(h.Name))}
		case l.ours > l.total:
			return []Finding{wrong(h.Name, cure, "machines on %s need %s of memory and it has %s", h.Name, l.ours.About(), l.total.About())}
		case l.ours+l.others <= l.total:
			return nil
		}
		say := odd // what is not pinned can be swapped and shared, and what runs has its memory
		if need, _ := s.starting(w, h.Name); need > 0 && (seen.status.err != nil || need > seen.status.is.Available) {
			say = wrong
		}
		return []Finding{say(h.Name, cure, "machines on %s need %s of memory, others that run there have %s (%s), and it has %s",
			h.Name, l.ours.About(), l.others.About(), several(l.who), l.total.About())}
	})
}

// pool is a storage with what is promised of it.
type pool struct {
	storage  proxmox.Storage
	where    string
	disks    proxmox.Size // that are there, as large as they may grow
	more     proxmox.Size // that are to be made
	unlisted error
}

// pools adds up the disks; a storage that hosts share is one.
func pools(w *Want, s *seen) []pool {
	var out []pool
	at := map[string]int{}
	for _, h := range w.Hosts {
		seen := s.on[h.Name]
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
			out[i].more += newDisks(w, s, h.Name, name)
		}
	}
	return out
}

// newDisks is what disks on a storage are to grow by. Of a machine that is there, they
// are among the volumes already.
func newDisks(w *Want, s *seen, host, storage string) (sum proxmox.Size) {
	for _, vm := range w.on(host) {
		for _, d := range vm.Disks {
			if d.Storage == storage && s.ours(w, vm.Name) == nil {
				sum += d.Size
			}
		}
	}
	return sum
}

func checkDisks(w *Want, s *seen) []Finding {
	if s.residents.err != nil {
		return nil // which disks are there already is not known, and checkMemory says so
	}
	var out []Finding
	for _, p := range pools(w, s) {
		st := p.storage
		thick := st.Type == "lvm" // pve-storage, LVMPlugin.pm: a volume takes all of its size at once
		switch {
		case p.unlisted != nil:
			out = append(out, notSeen(st.Name, p.unlisted))
		case thick && p.more > st.Free:
			out = append(out, wrong(st.Name, "write smaller disks or another storage; lvmthin takes only what is written", "new disks on storage %q of %s take %s at once, and %s is free", st.Name, p.where, p.more.About(), st.Free.About()))
		case !thick && p.disks+p.more > st.Total:
			out = append(out, odd(st.Name, "thin disks allow that until they are full, and then all VMs on it stop: watch it, or write smaller ones", "disks on storage %q of %s may grow to %s%s and it has %s, %s free",
				st.Name, p.where, (p.disks+p.more).About(), p.fresh(), st.Total.About(), st.Free.About()))
		}
	}
	return out
}

// fresh says how much of a pool's growth is yet to be made.
func (p pool) fresh() string {
	if p.more == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s of them new)", p.more.About())
}

// starting are the VMs with GPUs that do not run yet, and how much memory they pin then.
func (s *seen) starting(w *Want, host string) (need proxmox.Size, vms []VM) {
	for _, vm := range w.gpus(host) {
		if r := s.ours(w, vm.Name); r == nil || !r.Running {
			need += vm.Memory
			vms = append(vms, vm)
		}
	}
	return need, vms
}

// checkStart compares what machines with GPUs pin when they start with what is free
// now: a start that waits for memory "times out", after 30 s, or a second per GiB above
// 30, times four (qemu-server, PVE/QemuServer/Helpers.pm, config_aware_timeout).
func checkStart(w *Want, s *seen) []Finding {
	return each(w, s, func(h Host, seen *hostSeen) []Finding {
		need, vms := s.starting(w, h.Name)
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
		case need == 0 || s.residents.err == nil && l.total > 0 && l.ours+l.others > l.total: // PX21 says so
			return nil
		case seen.status.err != nil:
			return []Finding{notSeen(h.Name, seen.status.err)}
		case need <= seen.status.is.Available:
			return nil
		}
		limit := machine.StartTimeout(longest.Memory, longest.GPUs.Count, len(longest.NICs), longest.RootOnly["hugepages"] != "")
		return []Finding{odd(h.Name, zfsCure(seen), "starting %s pins %s of memory, and %s of %s is free on %s now; Proxmox gives %s %s to start",
			several(names), need.About(), seen.status.is.Available.About(), l.total.About(), h.Name, longest.Name, limit)}
	})
}

// zfsCure knows who mostly has the memory that nobody has.
func zfsCure(h *hostSeen) string {
	cure := "shut down machines that are not needed"
	if slices.ContainsFunc(h.storages.is, func(s proxmox.Storage) bool { return strings.HasPrefix(s.Type, "zfs") }) {
		cure += "; ZFS's cache shrinks slowly, so limit it (here to 8 GiB): `echo $((8<<30)) > /sys/module/zfs/parameters/zfs_arc_max`"
	}
	return cure
}
