package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/printable"
)

// Diagnose says what is wrong in what was seen. It is pure: the same evidence gives the same
// report.
func Diagnose(e Evidence) Report {
	d := &diagnosis{e: e, ahead: medianSkew(e.Machines)}
	d.hosts()
	for _, m := range e.Machines {
		d.machine(m)
		d.judgeMachine(m)
		d.k3s(m)
		d.certificates(m)
		d.driver(m)
	}
	d.nodes()
	d.objects()
	d.fleet()
	d.lastRun()
	return Report{Findings: relate(d.found), Looked: d.sources()}
}

type diagnosis struct {
	e     Evidence
	ahead time.Duration // by how much most machines' clocks are ahead of ours
	found []Finding
}

// add records a finding.
func (d *diagnosis) add(l layer, machine string, f Finding) {
	f.layer, f.machine = l, machine
	if f.Severity == "" {
		f.Severity = Error
	}
	if f.Where == "" {
		f.Where = machine
	}
	d.found = append(d.found, f)
}

func (d *diagnosis) sources() []string {
	var out []string
	if len(d.e.Hosts) > 0 {
		out = append(out, printable.Count(len(d.e.Hosts), "host"))
	}
	out = append(out, printable.Count(len(d.e.Machines), "machine"))
	if d.e.API == nil {
		out = append(out, printable.Count(len(d.e.Nodes), "node"), printable.Count(len(d.e.Objects["Pod"]), "pod"))
	}
	return out
}

// errorLines returns an error's text as evidence, one element a line.
func errorLines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(err.Error()), "\n")
}

// How full a storage or file system may be, in percent. K3s lets its kubelet evict pods when less
// than 5 % are free (--eviction-hard, pkg/daemons/agent/agent_linux.go).
const (
	fullSoon = 90
	full     = 95
)

// diskFull is the finding of a machine whose disk is full.
const diskFull = "disk-full"

func (d *diagnosis) hosts() {
	if d.e.Proxmox != nil {
		d.add(onHost, "", Finding{
			Failure: "proxmox-unreachable", Where: "Proxmox", What: "its API does not answer as it should, so hosts, VMs and cards were not looked at",
			Evidence: errorLines(d.e.Proxmox),
			Do:       "is the host up, and is its port 8006 open from here? docs/failures.md, Reaching Proxmox, goes on",
		})
		return
	}
	for _, h := range d.e.Hosts {
		where := "host " + h.Name
		if !h.Online {
			d.offline(h)
			continue
		}
		if h.Err != nil {
			d.add(onHost, "", Finding{Failure: "storage-unread", Severity: Warning, Where: where, What: "its storages could not be listed",
				Evidence: errorLines(h.Err), Do: "see the message"})
		}
		for _, s := range h.Storages {
			switch {
			case s.Active:
			case !s.Enabled: // switched off, or another host's
				continue
			default:
				d.add(onHost, "", Finding{
					Failure: "storage-inactive", Where: where, What: fmt.Sprintf("storage %s is not active: its disks cannot be used", s.Name),
					Evidence: []string{s.Name + " (" + s.Type + "): active 0"}, Do: "pvesm status on " + h.Name + " says why",
				})
				continue
			}
			if s.Total <= 0 {
				continue
			}
			used := int(100 * (s.Total - s.Free) / s.Total)
			f := Finding{
				Failure: "storage-full", Where: where, What: fmt.Sprintf("storage %s is %d %% full: a VM pauses when its storage has no room", s.Name, used),
				Evidence: []string{fmt.Sprintf("%s of %s free", s.Free.Approximate(), s.Total.Approximate())}, Do: "remove what is not needed from " + s.Name + ", for example old backups, or let discarded blocks go: fstrim -a in the VMs",
			}
			switch {
			case used >= full:
				d.add(onHost, "", f)
			case used >= fullSoon:
				f.Severity = Warning
				d.add(onHost, "", f)
			}
		}
		for _, c := range h.Cards {
			d.add(onHost, c.Node, Finding{Failure: "card", Where: where, What: fmt.Sprintf("GPU %s (%s): %s", c.Address, c.Model, c.Problem), Do: "homelab gpu:list shows every card and who has it"})
		}
	}
}

// offline is the finding of a host that is down, for each machine on it.
func (d *diagnosis) offline(h Host) {
	f := Finding{
		Failure: "host-offline", Where: "host " + h.Name, What: "it is offline, and so is every VM on it",
		Evidence: []string{"the other hosts of the Proxmox cluster do not see it"}, Do: "switch it on, or look at its console and network",
	}
	here := 0
	for _, m := range d.e.Machines {
		if m.Host == h.Name && !m.External {
			d.add(onHost, m.Name, f)
			here++
		}
	}
	if here == 0 {
		d.add(onHost, "", f)
	}
}

// machine judges a VM as Proxmox sees it.
func (d *diagnosis) machine(m Machine) {
	vm := m.VM
	switch {
	case m.External || !m.Asked:
	case vm == nil:
		d.add(onMachine, m.Name, Finding{Failure: "vm-missing", What: "there is no VM of this name with the cluster's tag", Do: "homelab cluster:up makes it"})
	case vm.Locked != "":
		d.add(onMachine, m.Name, Finding{
			Failure: "vm-locked", What: fmt.Sprintf("%s is locked (%s)", vm, vm.Locked), Evidence: []string{"lock: " + vm.Locked},
			Do: fmt.Sprintf("wait for the task that holds the lock; if no task runs, unlock it on %s: qm unlock %d", vm.Host, vm.VMID),
		})
	case !vm.Running:
		d.add(onMachine, m.Name, Finding{Failure: "vm-stopped", What: fmt.Sprintf("%s does not run", vm), Evidence: []string{"status: stopped"}, Do: "homelab cluster:up starts it; if it stops again, see the task log and the kernel's log on " + vm.Host})
	}
}

// judgeMachine judges a machine from inside.
func (d *diagnosis) judgeMachine(m Machine) {
	if m.Boot != nil { // nobody looked
		return
	}
	if m.Err != nil {
		d.add(inSystem, m.Name,
			Finding{Failure: "no-login", What: "nobody can log in, so it was not looked at from inside", Evidence: errorLines(m.Err), Do: "open its console in Proxmox: does it boot, and does it have a network?"})
		return
	}
	in := m.State
	for _, of := range []struct {
		all         []Usage
		what, clear string
	}{
		{in.Disks, "", "remove what is not needed, or write a larger size for the disk and run cluster:up; images that no pod uses: k3s crictl rmi --prune"},
		{in.Inodes, " with files (inodes)", "very many small files: remove some"},
	} {
		for _, u := range of.all {
			f := Finding{Failure: diskFull, What: u.full() + of.what + ": below 5 % free, the kubelet evicts pods", Evidence: []string{u.full() + of.what}, Do: of.clear}
			if u.Percent < fullSoon {
				continue
			}
			if u.Percent < full {
				f.Severity = Warning
			}
			d.add(inSystem, m.Name, f)
		}
	}
	for _, at := range in.ReadOnly {
		d.add(inSystem, m.Name, Finding{
			Failure: "read-only", What: at + " is mounted read-only, as the kernel does after an I/O error", Evidence: append([]string{at + " ro"}, grep(in.Kernel, "I/O error", "error", "Remounting")...),
			Do: "look at the host's disks and storage first; then restart the machine, which checks the file system",
		})
	}
	if len(in.Failed) > 0 {
		d.add(inSystem, m.Name, Finding{
			Failure: "unit-failed", Severity: Warning, What: "failed units: " + strings.Join(in.Failed, ", "), Evidence: in.Failed,
			Do: "systemctl status " + in.Failed[0] + " on " + m.Name + " says why",
		})
	}
	d.clock(m)
	d.names(m)
	if killed := grep(in.Kernel, "Out of memory: Killed"); len(killed) > 0 {
		d.add(inSystem, m.Name, Finding{
			Failure: "out-of-memory", Severity: Warning, What: "the machine itself ran out of memory, and the kernel killed processes", Evidence: killed,
			Do: "give pods memory limits, or the node more memory",
		})
	}
	if broken := grep(in.Kernel, "I/O error", "EXT4-fs error", "XFS "); len(broken) > 0 && len(in.ReadOnly) == 0 {
		d.add(inSystem, m.Name, Finding{Failure: "disk-errors", What: "the kernel reports errors of a disk", Evidence: broken, Do: "look at the host's disks (smartctl, zpool status) and at its storage before data is lost"})
	}
	if held := grep(in.Kernel, "Unable to change power state"); len(held) > 0 {
		d.add(inSystem, m.Name, Finding{
			Failure: "card-asleep", What: "a passed-through card does not wake up, since a restart from inside does not reset it", Evidence: held,
			Do: "homelab node:cycle -node=" + m.Name + " switches the VM off and on",
		})
	}
}

// How far a machine's clock may be from those of the others. From minutes on, a new certificate of
// one is not valid yet on another.
const (
	clocksDiffer = 5 * time.Second
	clocksClash  = time.Minute
)

// medianSkew is the median of what the machines' clocks are ahead of ours, which may itself be wrong.
func medianSkew(all []Machine) time.Duration {
	var ahead []time.Duration
	for _, m := range all {
		if m.Err == nil && m.Boot == nil {
			ahead = append(ahead, m.State.Ahead)
		}
	}
	if len(ahead) == 0 {
		return 0
	}
	slices.Sort(ahead)
	return ahead[(len(ahead)-1)/2]
}

// names judges the host names that a machine has to resolve.
func (d *diagnosis) names(m Machine) {
	for _, name := range m.State.Unresolved {
		d.add(inSystem, m.Name, Finding{
			Failure: "name-unresolved", Severity: Warning, What: "it does not resolve " + name + ", where its API server, and Argo CD on it, ask for the keys of sign-ins: kubectl with the login gets Unauthorized, and Argo CD shows a login of its own",
			Evidence: []string{"getent ahosts " + name + ": nothing"}, Do: "let the machine's DNS server, or its /etc/hosts, know " + name + " by the address of the ingress",
		})
	}
}

// clock judges a machine's clock.
func (d *diagnosis) clock(m Machine) {
	in, off := m.State, m.State.Ahead-d.ahead
	f := Finding{Failure: "clock", Severity: Warning, Do: "let it reach a time server: timedatectl timesync-status"}
	f.What = "its clock is not synchronized: certificates and etcd need clocks that agree"
	if in.Clock == "no" {
		f.Evidence = append(f.Evidence, "NTPSynchronized=no")
	}
	if off.Abs() >= clocksDiffer {
		where := "ahead of"
		if off < 0 {
			where = "behind"
		}
		f.What = fmt.Sprintf("its clock is %s %s the other machines': certificates and etcd need clocks that agree", off.Abs(), where)
	} else if in.Clock != "no" {
		return
	}
	if off.Abs() >= clocksClash {
		f.Severity = Error
	}
	d.add(inSystem, m.Name, f)
}

// grep returns the last lines that contain one of the texts, at most three.
func grep(lines []string, texts ...string) []string {
	var out []string
	for _, line := range lines {
		if slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(line, t) }) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out[max(0, len(out)-3):]
}

// nodeOfFile returns the node of the file with this name.
func (d *diagnosis) nodeOfFile(name string) (spec.Node, bool) {
	for _, m := range d.e.Machines {
		if m.Name == name && m.Role.IsNode() {
			return m.Node, true
		}
	}
	return spec.Node{}, false
}
