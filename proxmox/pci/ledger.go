package pci

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/machine"
	"github.com/cps-gpu/homelab/unit"
)

// Ledger says which VM claims which device of some hosts: by the configuration of every VM there,
// running or not, and by every resource mapping. Proxmox itself keeps no such record: it accepts a
// configuration that assigns one card to two VMs, and the second of them does not start.
//
// VMs and mappings that the token may not see (VM.Audit, Mapping.Audit) are missing: Proxmox leaves
// them out of its lists.
type Ledger struct {
	Cards    []Card         // every NVIDIA card, sorted by host and address
	Claims   []Claim        // on any device, sorted by host, VMID and slot
	Mappings []MappingState // of the whole cluster, compared with the hardware of the first host

	devices map[string][]Function
}

// Card is a GPU with the mappings and claims that name it.
type Card struct {
	GPU
	Host     string
	Mappings []string // ids, whether a VM uses them or not
	Claims   []Claim  // of VMs that have it or may get it
}

// Claim is one passed-through device of one VM. A stopped VM takes its devices again when it
// starts. A template never starts, but its clones would claim the device.
type Claim struct {
	Host     string
	VMID     int
	Name     string
	Tags     []string
	Running  bool
	OnBoot   bool // starts with the host
	Template bool

	Slot    string // hostpci0
	Mapping string // the mapping that it uses; empty: it names the device itself, which only root@pam may configure
	Leaving bool   // held until the VM's next start: its configuration no longer has it
	Shared  bool   // a mediated device, of which a card provides several
	// Choices are the acceptable devices, each by its functions. Proxmox takes the first that is
	// free when the VM starts. Empty: the host lacks the named device.
	Choices [][]unit.PCIAddress
}

// String names the VM: "VM 104 (win11)".
func (c Claim) String() string { return fmt.Sprintf("VM %d (%s)", c.VMID, c.Name) }

// touches reports whether the claim may take a function of a card.
func (c Claim) touches(card unit.PCIAddress) bool {
	return slices.ContainsFunc(c.Choices, func(choice []unit.PCIAddress) bool {
		return slices.ContainsFunc(choice, func(a unit.PCIAddress) bool { return a.Whole() == card.Whole() })
	})
}

// How describes the claim: "by mapping gpus as hostpci0, stopped, starts with the host".
func (c Claim) How() string {
	how := "by address"
	if c.Mapping != "" {
		how = "by mapping " + c.Mapping
	}
	how += " as " + c.Slot
	switch {
	case c.Template:
		how += ", a template"
	case c.Leaving:
		how += ", until its next start"
	case c.Running:
		how += ", running"
	case c.OnBoot:
		how += ", stopped, starts with the host"
	default:
		how += ", stopped"
	}
	return how
}

// NewLedger makes a Ledger from the cards of hosts, given each host's devices, and the claims of
// VMs. The mappings are compared with the hardware of the first host.
func NewLedger(hosts []string, devices map[string][]Function, mappings []MappingState, vms []*machine.VM) *Ledger {
	l := &Ledger{devices: devices, Mappings: mappings}
	for _, host := range hosts {
		for _, g := range GPUs(devices[host]) {
			l.Cards = append(l.Cards, Card{GPU: g, Host: host})
		}
	}
	for _, vm := range vms {
		l.Claims = append(l.Claims, claimsOf(vm, mappings, devices[vm.Host])...)
	}
	l.fill()
	return l
}

// claimsOf reads which devices a VM's configuration passes through, current and pending.
func claimsOf(v *machine.VM, mappings []MappingState, devices []Function) []Claim {
	var out []Claim
	add := func(slot, line string, leaving bool) {
		p := wire.Loose(line)
		cl := Claim{
			Host: v.Host, VMID: v.VMID, Name: v.Name, Tags: v.Tags, Running: v.Running, OnBoot: v.OnBoot, Template: v.Template,
			Slot: slot, Mapping: p.Get("mapping"), Leaving: leaving, Shared: p.Get("mdev") != "",
		}
		if cl.Mapping != "" {
			cl.Choices = choices(cl.Mapping, v.Host, mappings, devices)
		} else if choice := functionsOf(p.First("host", ""), devices); len(choice) > 0 {
			cl.Choices = [][]unit.PCIAddress{choice}
		}
		out = append(out, cl)
	}
	for i := range 16 {
		slot := "hostpci" + strconv.Itoa(i)
		if line := v.Config()[slot]; line != "" {
			add(slot, line, false)
		}
		for _, p := range v.Pending {
			if p.Key == slot && p.Have != "" {
				add(slot, p.Have, true)
			}
		}
	}
	return out
}

// Offered returns how many devices a mapping has on a host, and the claims of VMs there that can take
// no others. Each claim takes one device, so a VM can get one of the mapping if there are fewer claims
// than devices. Templates take none.
func (l *Ledger) Offered(host, mapping string) (devices int, claims []Claim) {
	offered := choices(mapping, host, l.Mappings, l.devices[host])
	within := func(choice []unit.PCIAddress) bool {
		return slices.ContainsFunc(offered, func(o []unit.PCIAddress) bool {
			return slices.ContainsFunc(choice, func(a unit.PCIAddress) bool { return slices.Contains(o, a) })
		})
	}
	for _, cl := range l.Claims {
		if cl.Host == host && !cl.Template && len(cl.Choices) > 0 && !slices.ContainsFunc(cl.Choices, func(ch []unit.PCIAddress) bool { return !within(ch) }) {
			claims = append(claims, cl)
		}
	}
	return len(offered), claims
}

// choices lists what a mapping offers on a host, in the order in which it is tried.
func choices(id, host string, mappings []MappingState, devices []Function) [][]unit.PCIAddress {
	var out [][]unit.PCIAddress
	for _, m := range mappings {
		if m.ID != id {
			continue
		}
		for _, path := range m.paths(host) {
			if choice := functionsOf(path, devices); len(choice) > 0 {
				out = append(out, choice)
			}
		}
	}
	return out
}

// paths lists a mapping's entries for a host; one with several devices keeps its
// semicolons.
func (m MappingState) paths(host string) []string {
	var out []string
	for _, d := range m.Devices {
		if d.Host == host {
			out = append(out, d.Address.String())
		}
	}
	for _, line := range m.unread {
		if p := wire.Loose(line); p.Get("node") == host {
			out = append(out, p.Get("path"))
		}
	}
	return out
}

// functionsOf lists the functions of a path, which may have several devices with semicolons between
// them. A device that the host lacks is kept as written.
func functionsOf(path string, devices []Function) []unit.PCIAddress {
	var out []unit.PCIAddress
	for text := range strings.SplitSeq(path, ";") {
		a, err := unit.ParsePCIAddress(text)
		if err != nil {
			continue
		}
		before := len(out)
		for _, d := range devices {
			if a.Contains(d.Address) {
				out = append(out, d.Address)
			}
		}
		if len(out) == before {
			out = append(out, a)
		}
	}
	return out
}

// fill adds mappings and claims to their cards.
func (l *Ledger) fill() {
	for i := range l.Cards {
		card := &l.Cards[i]
		for _, m := range l.Mappings {
			if slices.ContainsFunc(m.paths(card.Host), func(path string) bool {
				return slices.Contains(functionsOf(path, l.devices[card.Host]), card.Address)
			}) {
				card.Mappings = append(card.Mappings, m.ID)
			}
		}
		for _, cl := range l.Claims {
			if cl.Host == card.Host && cl.touches(card.Address) {
				card.Claims = append(card.Claims, cl)
			}
		}
	}
}

// Card returns the card at an address of a host. The address may be that of any function.
func (l *Ledger) Card(host string, at unit.PCIAddress) (Card, bool) {
	for _, c := range l.Cards {
		if c.Host == host && c.Address.Whole() == at.Whole() {
			return c, true
		}
	}
	return Card{}, false
}

// Offers lists what a VM on host may get through a mapping, in the order in which
// Proxmox tries it: each by its functions, as in [Claim.Choices].
func (l *Ledger) Offers(host, mapping string) [][]unit.PCIAddress {
	return choices(mapping, host, l.Mappings, l.devices[host])
}
