package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// requestedCards lists the cards that VMs request by address, or by an existing mapping, each with the VMs
// that request it.
func requestedCards(vms []VM, mappings []pci.MappingState, host string) map[proxmox.PCIAddress]string {
	out := map[proxmox.PCIAddress]string{}
	for _, vm := range vms {
		for _, a := range vm.GPUs.PCI {
			out[a.Whole()] = vm.Name
		}
		for _, m := range mappings {
			if slices.Contains(vm.GPUs.Mappings, m.ID) && len(m.Devices) == 1 && m.Devices[0].Host == host {
				out[m.Devices[0].Address.Whole()] = vm.Name
			}
		}
	}
	return out
}

// checkIOMMU checks whether cards can be passed through. Without an IOMMU Proxmox says "cannot
// prepare PCI pass-through, IOMMU not present", and all devices of a group go to one VM
// (pve-common, PVE/SysFSTools.pm, pci_dev_group_bind_to_vfio). PX4 counts the cards for VMs that
// accept any.
func checkIOMMU(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	return passable(w, h, seen)
}

// passable checks the requested cards of a host, or all of its cards if the IOMMU is off.
func passable(w *Requirements, h Host, seen *hostObservation) []Finding {
	cards := seen.cards.is
	if len(cards) > 0 && !slices.ContainsFunc(cards, func(g pci.GPU) bool { return g.IOMMUGroup >= 0 }) {
		return []Finding{errorf(h.Name, "switch VT-d or AMD-Vi on in the firmware; homelab host:prep does the rest (docs/real-host.md)",
			"the IOMMU of %s is off: no card has a group (%s)", h.Name, addresses(cards))}
	}
	asked := requestedCards(w.gpus(h.Name), seen.mappings.is, h.Name)
	var out []Finding
	for _, g := range cards {
		who, problem := asked[g.Address.Whole()], g.Problem()
		if who == "" || problem == "" {
			continue
		}
		evidence, cure, _ := strings.Cut(problem, ": ")
		out = append(out, errorf(g.Address.Whole().String(), cure, "%s (%s) on %s, which %s requests, %s", g.Address, g.Model, h.Name,
			who, evidence))
	}
	return out
}

func addresses(cards []pci.GPU) string {
	out := make([]string, len(cards))
	for i, g := range cards {
		out[i] = g.Address.Whole().String()
	}
	return strings.Join(out, ", ")
}

// checkMappings asks Proxmox whether mappings fit the hardware. Otherwise a start fails with "PCI
// device mapping invalid (hardware probably changed)" (pve-guest-common, PVE/Mapping/PCI.pm,
// assert_valid; GET /cluster/mapping/pci?check-node=).
func checkMappings(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	var out []Finding
	for _, vm := range w.gpus(h.Name) {
		for _, id := range vm.GPUs.Mappings {
			out = append(out, checkNamedMapping(h.Name, vm, id, seen.mappings.is, s.ledger.is)...)
		}
	}
	for _, m := range seen.mappings.is {
		if w.Mappings == nil || !w.Mappings(m.ID, m.Description) || len(m.Problems) == 0 || !devicesOn(m, h.Name) {
			continue
		}
		out = append(out, warnf(m.ID, "cluster:up recreates it from what the host reports",
			"mapping %s does not fit the hardware of %s: %s", m.ID, h.Name, strings.Join(m.Problems, "; ")))
	}
	return out
}

func devicesOn(m pci.MappingState, host string) bool {
	return slices.ContainsFunc(m.Devices, func(d pci.MappedDevice) bool { return d.Host == host })
}

func checkNamedMapping(host string, vm VM, id string, all []pci.MappingState, ledger *pci.Ledger) []Finding {
	var names []string
	for _, m := range all {
		names = append(names, m.ID)
	}
	i := slices.Index(names, id)
	switch {
	case i < 0:
		return []Finding{errorf(id, "name an existing one, or leave gpus.mapping out and cluster:up makes one",
			"there is no resource mapping %s, which %s names, or the token may not see it (Mapping.Use on /mapping/pci/%s); there is %s",
			id, vm.Name, id, cmp.Or(strings.Join(names, ", "), "none"))}
	case ledger != nil && ledger.MappingProblem(host, id) != "":
		return []Finding{errorf(id, "name mappings of NVIDIA cards under gpus.mapping, or write gpus: with a number, and cluster:up makes one",
			"mapping %s, which %s names, cannot give it a GPU on %s: %s", id, vm.Name, host, ledger.MappingProblem(host, id))}
	case len(all[i].Problems) > 0:
		return []Finding{errorf(id,
			"recreate it from what the host reports: Datacenter, Resource Mappings; or leave gpus.mapping out and cluster:up makes one",
			"mapping %s, which %s names, does not fit the hardware of %s: %s", id, vm.Name, host, strings.Join(all[i].Problems, "; "))}
	}
	return nil
}

// checkCards finds other VMs with a claim on the cards. A stopped VM counts, because it takes its
// cards when it starts. Proxmox reports the conflict only at start: "PCI device '0000:41:00.0'
// already in use by VMID '104'" (qemu-server, PVE/QemuServer/PCI.pm, reserve_pci_usage).
func checkCards(w *Requirements, s *observation) []Finding {
	if s.ledger.err != nil {
		return []Finding{unobservedFinding("", s.ledger.err)}
	}
	if s.ledger.is == nil {
		return eachHost(w, s, func(Host, *hostObservation) []Finding { return nil })
	}
	out := eachHost(w, s, func(h Host, seen *hostObservation) []Finding {
		switch {
		case len(w.gpus(h.Name)) == 0:
			return nil
		case len(passable(w, h, seen)) > 0: // PX3 reports it
			return nil
		case w.Place != nil:
			return problems(h, seen.placed)
		}
		return enough(w, s.ledger.is, s.marked.is, h.Name)
	})
	for _, c := range s.ledger.is.Conflicts() {
		theirs := filter(c.Claims, func(cl pci.Claim) bool { return !s.marked.is[cl.VMID] })
		if len(theirs) == len(c.Claims) || len(theirs) == 0 && w.Place != nil {
			continue // another owner's mapping, perhaps on purpose; or the caller assigns cards by its own rules
		}
		say := warnf
		if c.Imminent() && !copied(w, s.ledger.is, theirs) {
			say = errorf
		}
		out = append(out, say(c.Devices[0].Whole().String(), "remove the card from one of them: `qm set VMID --delete hostpciN`", "%s", c))
	}
	return out
}

// copied reports whether all claims belong to copies of our machines and use our mappings. Such
// claims do not stop a run.
func copied(w *Requirements, ledger *pci.Ledger, claims []pci.Claim) bool {
	return len(claims) > 0 && !slices.ContainsFunc(claims, func(cl pci.Claim) bool {
		return !slices.Contains(cl.Tags, w.Owner) || !slices.ContainsFunc(ledger.Mappings, func(m pci.MappingState) bool {
			return m.ID == cl.Mapping && w.Mappings != nil && w.Mappings(m.ID, m.Description)
		})
	})
}

// checkDevices says what the caller's own rules say about the other devices of a host's VMs.
func checkDevices(_ *Requirements, _ *observation, h Host, seen *hostObservation) []Finding {
	return problems(h, seen.devices)
}

// problems returns what the caller's own rules say.
func problems(h Host, said fact[[]error]) []Finding {
	if said.err != nil {
		return []Finding{unobservedFinding(h.Name, said.err)}
	}
	var out []Finding
	for _, err := range said.is {
		evidence, cure, _ := strings.Cut(err.Error(), "\n")
		out = append(out, errorf(h.Name, cmp.Or(unindent(cure), otherCards), "%s", evidence))
	}
	return out
}

// enough assigns the cards of a host to the VMs that request them: first to VMs that name their
// cards, then to those that want a model, then to the rest.
func enough(w *Requirements, ledger *pci.Ledger, ours map[int]bool, host string) []Finding {
	vms := filter(w.gpus(host), func(vm VM) bool { return len(vm.GPUs.Mappings) == 0 })
	slices.SortStableFunc(vms, func(a, b VM) int { return cmp.Compare(specificity(b.GPUs), specificity(a.GPUs)) })
	gone := map[proxmox.PCIAddress]string{}
	var out []Finding
	for _, vm := range vms {
		var got int
		var why []string
		for _, c := range ledger.Cards {
			at := c.Address.Whole()
			switch claim := otherClaims(c, ours); {
			case c.Host != host || got == vm.GPUs.Count:
			case !vm.GPUs.fits(c.GPU):
				why = append(why, mismatch(c.GPU))
			case claim != "":
				why = append(why, fmt.Sprintf("%s belongs to %s", at, claim))
			case c.Problem() != "":
				why = append(why, fmt.Sprintf("%s %s", at, c.Problem()))
			case gone[at] != "":
				why = append(why, fmt.Sprintf("%s goes to %s", at, gone[at]))
			case len(c.GroupMembers) >= vm.GPUs.Count:
				why = append(why, fmt.Sprintf("%s shares IOMMU group %d with %s, and one VM must have all of a group", at, c.IOMMUGroup,
					c.GroupMembers[0].Address))
			default:
				gone[at] = vm.Name
				got++
			}
		}
		if got < vm.GPUs.Count {
			out = append(out, tooFewCards(host, vm, got, why))
		}
	}
	return out
}

// mismatch says what a card is that does not match a request.
func mismatch(g pci.GPU) string {
	out := fmt.Sprintf("%s is a %s", g.Address.Whole(), g.Model)
	if id, err := nvidia.ParsePCIID(g.ID()); err == nil && nvidia.UnsupportedReason(id) != "" {
		out += ", and " + nvidia.UnsupportedReason(id)
	}
	return out
}

func specificity(g GPUs) int {
	switch {
	case len(g.PCI) > 0:
		return 2
	case g.Model != "":
		return 1
	}
	return 0
}

// otherClaims says who else has a claim on a card, or returns "" if nobody does. A card is also taken if
// a VM holds it until its next start, or uses it as a mediated device.
func otherClaims(c pci.Card, ours map[int]bool) string {
	for _, cl := range c.Claims {
		if !ours[cl.VMID] && !cl.Template {
			return fmt.Sprintf("%s %s", cl, cl.Description())
		}
	}
	return ""
}

const otherCards = "ask for fewer or for others (homelab gpu:list shows all), or remove cards from the VMs that have them: `qm set VMID --delete hostpciN`"

func tooFewCards(host string, vm VM, got int, why []string) Finding {
	asked := fmt.Sprintf("%d GPUs", vm.GPUs.Count)
	if vm.GPUs.Count == 1 {
		asked = "1 GPU"
	}
	if len(vm.GPUs.PCI) > 0 {
		asked = fmt.Sprintf("the GPUs at %v", vm.GPUs.PCI)
	}
	if len(why) == 0 {
		why = []string{fmt.Sprintf("it has %d in all", got)}
		if got == 0 {
			why = []string{"it has none, or the token may not see them (Sys.Audit on /)"}
		}
	}
	return errorf(vm.Name, otherCards,
		"%s requests %s, and host %s has %d available: %s", vm.Name, asked, host, got, strings.Join(why, "; "))
}

// checkMachines checks existing machines of ours. A machine type other than q35 has no PCIe. With
// SeaBIOS or an emulated CPU the window for a card's memory may be too small: "This PCI I/O region
// assigned to your NVIDIA device is invalid" in the guest (Proxmox's wiki, PCI(e) Passthrough).
func checkMachines(w *Requirements, s *observation) []Finding {
	var out []Finding
	for _, vm := range w.VMs {
		if vm.GPUs.Count == 0 {
			continue
		}
		if cpu, _, _ := strings.Cut(strings.TrimPrefix(cmp.Or(vm.CPUType, "host"), "cputype="), ","); cpu != "host" { // host,hidden=1 is the host's type
			out = append(out, warnf(vm.Name, "write cpu: host",
				"%s has GPUs and the CPU type %s in the file: a CPU type other than the host's has less address space, and the cards' memory may not fit", vm.Name, cpu))
		}
		there := s.vms[vm.Name]
		switch {
		case there.err != nil:
			out = append(out, unobservedFinding(vm.Name, there.err))
		case there.is == nil:
		case !strings.Contains(there.is.Machine, "q35"):
			out = append(out, errorf(vm.Name, fmt.Sprintf("while it is off: `qm set %d --machine q35`", there.is.VMID),
				"%s has the machine type %s, and GPUs on PCIe need q35: Proxmox does not start it", there.is, cmp.Or(there.is.Machine, "i440fx")))
		case there.is.BIOS != "ovmf":
			out = append(out, warnf(vm.Name,
				"homelab node:replace -node="+vm.Name+" recreates it with OVMF: its boot disk depends on the firmware",
				"%s has the firmware SeaBIOS, and GPUs need OVMF: their memory may not fit below 4 GiB", there.is))
		}
	}
	return out
}

// checkDriver checks whether a driver supports the cards. Otherwise the guest boots normally, and
// its driver says "not supported by the NVIDIA 535.x driver release" (NVIDIA's list of supported
// products, embedded in package nvidia).
func checkDriver(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	ids, unknown := candidates(w, s.ledger.is, s.marked.is, seen, h.Name)
	if len(ids) == 0 {
		return nil
	}
	var out []Finding
	_, _, err := nvidia.SelectDriverBranch(ids, *w.Driver)
	if err != nil && eachHasDriver(w, ids) { // nodes have drivers of their own
		err = nil
	}
	var no *nvidia.BranchError
	switch {
	case errors.As(err, &no):
		what := "no NVIDIA driver fits the cards"
		if no.Branch != "" {
			what = "NVIDIA driver " + no.Branch + " does not fit the cards"
		}
		out = append(out, errorf(h.Name, no.Do, "%s of %s: %s", what, h.Name, no.Reason))
	case err != nil:
		out = append(out, unobservedFinding(h.Name, err))
	}
	for _, g := range unknown {
		out = append(out, warnf(g.Address.Whole().String(),
			"if it is newer than "+nvidia.LifecycleDate+", pin a branch that knows it: nvidia.driver.branch",
			"%s (%s, %s) on %s is not in our table of cards, so the driver may not support it", g.Address, g.ID(), g.Name, h.Name))
	}
	return out
}

// eachHasDriver reports whether every VM of a host may get cards that a driver supports, if not the
// same for all. Who gets which card the caller's own rules decide, and say where they are too
// different for one VM.
func eachHasDriver(w *Requirements, ids []nvidia.PCIID) bool {
	if w.Place == nil {
		return false
	}
	return !slices.ContainsFunc(ids, func(id nvidia.PCIID) bool {
		_, _, err := nvidia.SelectDriverBranch([]nvidia.PCIID{id}, *w.Driver)
		return err != nil
	})
}

// candidates returns the ids of the cards of a host that our machines may get. Cards of other
// owners do not need our driver.
func candidates(w *Requirements, ledger *pci.Ledger, ours map[int]bool, seen *hostObservation, host string) (ids []nvidia.PCIID,
	unknown []pci.GPU) {
	vms := w.gpus(host)
	for _, g := range seen.cards.is {
		mapped := slices.ContainsFunc(seen.mappings.is, func(m pci.MappingState) bool {
			return slices.ContainsFunc(vms, func(vm VM) bool { return slices.Contains(vm.GPUs.Mappings, m.ID) }) &&
				slices.ContainsFunc(m.Devices, func(d pci.MappedDevice) bool { return d.Host == host && d.Address.Contains(g.Address) })
		})
		wanted := slices.ContainsFunc(vms, func(vm VM) bool { return len(vm.GPUs.Mappings) == 0 && vm.GPUs.fits(g) })
		if !mapped && ledger != nil {
			c, ok := ledger.Card(host, g.Address)
			wanted = wanted && (!ok || otherClaims(c, ours) == "")
		}
		if !mapped && !wanted {
			continue
		}
		id, err := nvidia.ParsePCIID(g.ID())
		if err != nil {
			continue // not hexadecimal, so it does not come from Proxmox
		}
		ids = append(ids, id)
		if _, known := nvidia.Lookup(id); !known {
			unknown = append(unknown, g)
		}
	}
	return ids, unknown
}

// prebuiltFor is the release whose archive is known to have signed modules for each of its kernels,
// so that no container image per kernel is needed.
const prebuiltFor = "noble"

// checkPrebuilt checks whether prebuilt driver modules exist for the machines' kernel. A driver in
// a container needs an image for each kernel, and without one its pod waits forever in
// ImagePullBackOff (NVIDIA's GPU operator, precompiled drivers).
func checkPrebuilt(w *Requirements, _ *observation) []Finding {
	if w.Release == "" || w.Release == prebuiltFor {
		return nil
	}
	return []Finding{warnf(w.Release, "write image: ubuntu-24.04, or have it built on the nodes: nvidia.driver.mode: dkms",
		"%s may lack signed modules of the driver for some of its kernels; %s has them", w.Release, prebuiltFor)}
}
