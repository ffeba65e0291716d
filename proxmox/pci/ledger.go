package pci

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Ledger says which VM or container claims which device of some hosts: by the configuration of every
// one there, running or not, and by every resource mapping. Proxmox itself keeps no such record: it accepts a
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

// Claim is one device of one VM, passed through, or of one container. A stopped VM takes its devices again when it
// starts. A template never starts, but its clones would claim the device.
type Claim struct {
	Host     string
	VMID     int
	Name     string
	Tags     []string
	Running  bool
	OnBoot   bool // starts with the host
	Template bool

	Container bool   // it uses the card by the host's own driver
	Device    string // what a container's configuration names: /dev/nvidia0

	Slot    string // hostpci0; of a container dev0, or an entry of LXC's own
	Mapping string // the mapping that it uses; empty: it names the device itself, which only root@pam may configure
	Leaving bool   // held until the VM's next start: its configuration no longer has it
	Shared  bool   // a mediated device, of which a card provides several
	// Choices are the acceptable devices, each by its functions. Proxmox takes the first that is
	// free when the VM starts. Empty: the host lacks the named device.
	Choices [][]unit.PCIAddress
}

// String names the VM or container: "VM 104 (win11)".
func (c Claim) String() string {
	if c.Container {
		return fmt.Sprintf("container %d (%s)", c.VMID, c.Name)
	}
	return fmt.Sprintf("VM %d (%s)", c.VMID, c.Name)
}

// ReleaseCommand is what takes the device from its owner.
func (c Claim) ReleaseCommand() string {
	switch {
	case !c.Container:
		return fmt.Sprintf("remove it from the VM, on %s: qm set %d --delete %s", c.Host, c.VMID, printable.Word(c.Slot))
	case strings.HasPrefix(c.Slot, "dev"):
		return fmt.Sprintf("remove it from the container, on %s: pct set %d --delete %s", c.Host, c.VMID, c.Slot)
	}
	return fmt.Sprintf("remove it from the container, on %s: the lines with nvidia in /etc/pve/lxc/%d.conf", c.Host, c.VMID)
}

// mayTake reports whether the claim may take a function of a card, or a virtual one.
func (c Claim) mayTake(card GPU) bool {
	return slices.ContainsFunc(c.Choices, func(choice []unit.PCIAddress) bool { return slices.ContainsFunc(choice, card.has) })
}

// Description describes the claim: "by mapping gpus as hostpci0, stopped, starts with the host".
func (c Claim) Description() string {
	how := "by address"
	switch {
	case c.Container:
		how = "by " + c.Device
	case c.Mapping != "":
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

// Guest is a VM of a host, as far as devices matter.
type Guest struct {
	Host     string
	VMID     int
	Name     string
	Tags     []string
	Running  bool
	OnBoot   bool
	Template bool
	Devices  map[string]string // its configuration, by key: hostpci0, …
	Leaving  map[string]string // devices that it holds until its next start, by the same keys
}

// NewLedger makes a Ledger from the cards of hosts, given each host's devices, and the claims of
// VMs and containers. The mappings are compared with the hardware of the first host.
func NewLedger(hosts []string, devices map[string][]Function, mappings []MappingState, vms []Guest, containers []Container) *Ledger {
	l := &Ledger{devices: devices, Mappings: mappings}
	for _, host := range hosts {
		for _, g := range GPUs(devices[host]) {
			l.Cards = append(l.Cards, Card{GPU: g, Host: host})
		}
	}
	for _, vm := range vms {
		l.Claims = append(l.Claims, claimsOf(vm, mappings, devices[vm.Host])...)
	}
	l.linkCards()
	for _, ct := range containers {
		l.enter(ct)
	}
	return l
}

// claimsOf reads which devices a VM's configuration passes through, current and pending.
func claimsOf(v Guest, mappings []MappingState, devices []Function) []Claim {
	var out []Claim
	add := func(slot, line string, leaving bool) {
		p := wire.ParseLenient(line)
		cl := Claim{
			Host: v.Host, VMID: v.VMID, Name: v.Name, Tags: v.Tags, Running: v.Running, OnBoot: v.OnBoot, Template: v.Template,
			Slot: slot, Mapping: p.Get("mapping"), Leaving: leaving, Shared: p.Get("mdev") != "",
		}
		if cl.Mapping != "" {
			cl.Choices = choices(cl.Mapping, v.Host, mappings, devices)
		} else if choice := functionsOf(p.GetFirst("host", ""), devices); len(choice) > 0 {
			cl.Choices = [][]unit.PCIAddress{choice}
		}
		out = append(out, cl)
	}
	for i := range unit.MaxPCI {
		slot := "hostpci" + strconv.Itoa(i)
		if line := v.Devices[slot]; line != "" {
			add(slot, line, false)
		}
		if line := v.Leaving[slot]; line != "" {
			add(slot, line, true)
		}
	}
	return out
}

// MappingClaims returns how many devices a mapping has on a host, and the claims of VMs there that can take
// no others. Each claim takes one device, so a VM can get one of the mapping if there are fewer claims
// than devices. Templates take none.
func (l *Ledger) MappingClaims(host, mapping string) (devices int, claims []Claim) {
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
		if p := wire.ParseLenient(line); p.Get("node") == host {
			out = append(out, p.Get("path"))
		}
	}
	return out
}

// hosts lists the hosts that a mapping has devices on.
func (m MappingState) hosts() []string {
	var out []string
	for _, d := range m.Devices {
		out = append(out, d.Host)
	}
	for _, line := range m.unread {
		out = append(out, wire.ParseLenient(line).Get("node"))
	}
	slices.Sort(out)
	return slices.Compact(out)
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

// linkCards adds mappings and claims to their cards.
func (l *Ledger) linkCards() {
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
			if cl.Host == card.Host && cl.mayTake(card.GPU) {
				card.Claims = append(card.Claims, cl)
			}
		}
	}
}

// Card returns the card at an address of a host. The address may be that of any function, also of a
// virtual one.
func (l *Ledger) Card(host string, at unit.PCIAddress) (Card, bool) {
	for _, c := range l.Cards {
		if c.Host == host && c.has(at) {
			return c, true
		}
	}
	return Card{}, false
}

// Function returns the function of a host at an address, the first one of a whole device.
func (l *Ledger) Function(host string, at unit.PCIAddress) (Function, bool) {
	for _, d := range l.devices[host] {
		if d.Address == at.First() {
			return d, true
		}
	}
	return Function{}, false
}

// MappingChoices lists what a VM on host may get through a mapping, in the order in which
// Proxmox tries it: each by its functions, as in [Claim.Choices].
func (l *Ledger) MappingChoices(host, mapping string) [][]unit.PCIAddress {
	return choices(mapping, host, l.Mappings, l.devices[host])
}

// MappingProblem says what keeps a mapping from giving whole GPUs to a VM on a host, or returns "". A mapping
// that is not there, or that does not fit the hardware, is no matter of it.
func (l *Ledger) MappingProblem(host, mapping string) string {
	i := slices.IndexFunc(l.Mappings, func(m MappingState) bool { return m.ID == mapping })
	if i < 0 {
		return ""
	}
	if len(l.Mappings[i].paths(host)) == 0 {
		return fmt.Sprintf("it has no device on %s; it has some on %s", host, strings.Join(l.Mappings[i].hosts(), ", "))
	}
	for _, offer := range l.MappingChoices(host, mapping) {
		if why := l.choiceProblem(host, offer); why != "" {
			return why
		}
	}
	return ""
}

// choiceProblem says what keeps functions that go to a VM together from being one GPU.
func (l *Ledger) choiceProblem(host string, offer []unit.PCIAddress) string {
	var cards []string
	for _, a := range offer {
		if card, there := l.Card(host, a); there && card.Address == a {
			cards = append(cards, a.Whole().String())
		}
	}
	first, there := l.Function(host, offer[0])
	card, part := l.Card(host, offer[0])
	switch {
	case len(cards) > 1:
		return fmt.Sprintf("it gives %s to a VM as one device: make an entry of it for each", strings.Join(cards, " and "))
	case len(cards) == 1:
		return ""
	case part && card.HasVirtualFunction(offer[0]):
		return fmt.Sprintf("%s is a virtual function of %s (%s), for NVIDIA's vGPU software, which this does not install", offer[0], card.Address, card.Model)
	case part:
		return fmt.Sprintf("%s (%s) is a function of the card at %s without its GPU", offer[0], first.Name, card.Address)
	case there:
		return fmt.Sprintf("%s is %s (%s, class %s), and no NVIDIA GPU", offer[0], cmp.Or(strings.TrimSpace(first.VendorName+" "+first.Name), "a device"), first.ID(), first.Class)
	}
	return "" // Proxmox says that the device is not there
}
