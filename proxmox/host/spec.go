package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/proxmox"
)

// Spec is what a host should be ready for.
type Spec struct {
	// Owner is named in the files that are made: who wants this. One line.
	Owner string
	// GPUs says whether cards are passed through at all; false: only what is common
	// to all hosts is of interest.
	GPUs bool
	// Cards are the cards to pass through, whole; empty: every NVIDIA card.
	Cards []proxmox.PCIAddress
	// Framebuffer takes the console off the card that the host booted on, for boards
	// with no other: afterwards the screen stays dark.
	Framebuffer bool
}

// Changes returns what has to be done on a host that is as s, in this order. It is
// pure. An error is something that we do not dare to change.
func (spec Spec) Changes(s State) ([]*Change, error) {
	var out []*Change
	if !spec.GPUs {
		return nil, nil
	}
	if err := spec.onlyGPUs(s); err != nil {
		return nil, err
	}
	boot, err := spec.boot(s)
	if err != nil {
		return nil, err
	}
	modules, cards := spec.modules(s), spec.cards(s)
	for _, c := range []*Change{boot, modules, cards, spec.initramfs(s, modules, cards)} {
		if c != nil {
			out = append(out, c)
		}
	}
	return out, nil
}

// Change returns the one of the [Spec.Changes] that id names; nil when there is
// nothing to do about it.
func (spec Spec) Change(s State, id string) (*Change, error) {
	all, err := spec.Changes(s)
	if i := slices.IndexFunc(all, func(c *Change) bool { return c.ID == id }); i >= 0 {
		return all[i], err
	}
	return nil, err
}

// Diff says all changes in the words of a plan. What we do not dare to change is a
// difference, too.
func (spec Spec) Diff(s State) drift.Diff {
	all, err := spec.Changes(s)
	if err != nil {
		return drift.Diff{{Path: Boot, Have: err.Error(), Want: "lines that can be changed"}}
	}
	var d drift.Diff
	for _, c := range all {
		d = append(d, c.Diff()...)
	}
	return d
}

// header begins the files that homelab writes. Do not reword it: a host whose file has the
// old header would count as changed.
func (spec Spec) header(undo string) string {
	return fmt.Sprintf("# Made by homelab (go tool mage host:prep) for %s.\n# To take it back: %s.\n", spec.Owner, undo)
}

// wanted reports whether the cards to pass through include a function.
func (spec Spec) wanted(d Device, all []Device) bool {
	if len(spec.Cards) > 0 {
		return slices.ContainsFunc(spec.Cards, func(a proxmox.PCIAddress) bool { return a.Whole() == d.Address.Whole() })
	}
	return slices.ContainsFunc(all, func(o Device) bool { return o.IsGPU() && o.Address.Whole() == d.Address.Whole() })
}

// onlyGPUs refuses a card that is none. Addresses move when hardware is put in, and
// with vfio-pci for the disk or the network card there the host would not start.
func (spec Spec) onlyGPUs(s State) error {
	for _, card := range spec.Cards {
		at := slices.DeleteFunc(slices.Clone(s.Devices), func(d Device) bool { return d.Address.Whole() != card.Whole() })
		if len(at) > 0 && !slices.ContainsFunc(at, func(d Device) bool { return d.IsGPU() }) {
			return fmt.Errorf("the file wants to pass %s through as a GPU, and it is %s (%s), which the host would lose: "+
				"lspci -D -nn -d 10de: on the host shows where its NVIDIA cards are now; correct gpus.pci", card, cmp.Or(at[0].Name, "something else"), at[0].ID())
		}
	}
	return nil
}

// functions returns every function of the cards to pass through.
func (spec Spec) functions(s State) []Device {
	var out []Device
	for _, d := range s.Devices {
		if spec.wanted(d, s.Devices) {
			out = append(out, d)
		}
	}
	return out
}

// Held returns the functions of the cards that one of the host's own drivers has.
func (spec Spec) Held(s State) []Device {
	return slices.DeleteFunc(spec.functions(s), func(d Device) bool { return d.Driver == "" || d.Driver == vfioPCI })
}

// names joins what devices are called, each with its driver where it has one.
func names(all []Device) string {
	out := make([]string, len(all))
	for i, d := range all {
		out[i] = d.Address.String()
		if d.Driver != "" && d.Driver != vfioPCI {
			out[i] += " (" + d.Driver + ")"
		}
	}
	return strings.Join(out, ", ")
}
