package hostprep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// Spec is the wanted state of a host.
type Spec struct {
	// Owner is written into the files that homelab makes, to show who wants them. One line.
	Owner string
	// GPUs says whether cards are passed through. Without them and without Devices, only the settings
	// that all hosts need matter.
	GPUs bool
	// Devices says whether other devices are passed through, which Proxmox takes from the host's drivers
	// when a VM starts: they need the IOMMU and vfio, and are not bound at boot.
	Devices bool
	// Cards are the cards to pass through, each with all its functions; empty: every NVIDIA card.
	Cards []proxmox.PCIAddress
	// Framebuffer removes the console from the card that the host booted on, for boards with no
	// other card: afterwards the screen stays dark.
	Framebuffer bool
}

// Changes returns the changes that a host in state s needs, in order. It is pure. It returns an
// error for a setting that is not safe to change.
func (spec Spec) Changes(s State) ([]*Change, error) {
	var out []*Change
	if !spec.GPUs && !spec.Devices {
		return nil, nil
	}
	if err := spec.checkOnlyGPUs(s); err != nil {
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

// Change returns the one of [Spec.Changes] with that id, or nil if it is up to date.
func (spec Spec) Change(s State, id string) (*Change, error) {
	all, err := spec.Changes(s)
	if i := slices.IndexFunc(all, func(c *Change) bool { return c.ID == id }); i >= 0 {
		return all[i], err
	}
	return nil, err
}

// header begins the files that homelab writes. Do not reword it: a host whose file has the
// old header would count as changed.
func (spec Spec) header(undo string) string {
	return fmt.Sprintf("# Made by homelab (host:prep) for %s.\n# To undo it: %s.\n", printable.Text(spec.Owner), undo)
}

// isPassedThrough reports whether a function belongs to the cards to pass through.
func (spec Spec) isPassedThrough(d Device, all []Device) bool {
	if !spec.GPUs {
		return false
	}
	if len(spec.Cards) > 0 {
		return slices.ContainsFunc(spec.Cards, func(a proxmox.PCIAddress) bool { return a.Whole() == d.Address.Whole() })
	}
	return slices.ContainsFunc(all, func(o Device) bool { return o.IsGPU() && o.Address.Whole() == d.Address.Whole() })
}

// checkOnlyGPUs returns an error for a card that is not a GPU. Addresses change when hardware is added,
// and the host would not start if vfio-pci took its disk controller or network card.
func (spec Spec) checkOnlyGPUs(s State) error {
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
		if spec.isPassedThrough(d, s.Devices) {
			out = append(out, d)
		}
	}
	return out
}

// HeldByHostDriver returns the functions of the cards that one of the host's own drivers holds.
func (spec Spec) HeldByHostDriver(s State) []Device {
	return slices.DeleteFunc(spec.functions(s), func(d Device) bool { return d.Driver == "" || d.Driver == vfioPCI })
}

// names joins the names of devices, each with its driver if it has one.
func deviceNames(all []Device) string {
	out := make([]string, len(all))
	for i, d := range all {
		out[i] = d.Address.String()
		if d.Driver != "" && d.Driver != vfioPCI {
			out[i] += " (" + d.Driver + ")"
		}
	}
	return strings.Join(out, ", ")
}
