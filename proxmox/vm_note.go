package proxmox

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Two lines of a VM's configuration tell others about it, without a call to its guest. ipconfig0
// has its address: Proxmox itself uses that option only for a cloud-init drive, which our VMs do
// not have. The last line of the notes repeats the VM's mark, in case somebody clears its tags, and
// names the addresses that its cluster takes beside those of its machines.

// notePrefix begins our line of a VM's notes.
const notePrefix = "homelab: "

// ownerPrefix begins the tag of every owner.
const ownerPrefix = "homelab-"

// noteSize bounds our line: Proxmox takes notes of 8192 characters, and the file may have 8000.
const noteSize = 190

// note returns our line for a VM with that mark.
func note(mark string, claims []string) string {
	line := notePrefix + mark
	for _, c := range claims {
		if len(line)+1+len(c) <= noteSize {
			line += " " + c
		}
	}
	return line
}

// diffNotes compares the notes of a VM with that UUID. If only our line differs, it shows no more
// than that. Notes that somebody wrote stay if s has none.
func (s VMSpec) diffNotes(d *differ, vm *VM, uuid string) {
	have, was := vm.splitNotes()
	lined := s.Note && !s.Adopted && vm.config != nil // nil for a VM that was not read
	if !lined {
		have = vm.Description
	}
	want := strings.TrimSpace(s.Description)
	if want == "" && !vm.Unfinished {
		want = have
	}
	if !lined {
		d.set(theDescription, "description", have, want, "description", s.Description)
		return
	}
	line := note(markFor(s.Owner, vm.VMID, uuid), s.Claims)
	value := strings.TrimSpace(want + "\n\n" + line)
	if have == want {
		d.set(theDescription, "last line of the notes", was, line, "description", value)
	} else {
		d.set(theDescription, "description", have, want, "description", value)
	}
}

// splitNotes returns a VM's notes without our line, and our line, which is empty if there is none.
func (v *VM) splitNotes() (text, line string) {
	all := strings.Split(v.Description, "\n")
	i := slices.IndexFunc(all, func(l string) bool { return strings.HasPrefix(l, notePrefix) })
	if i < 0 {
		return v.Description, ""
	}
	return strings.TrimSpace(strings.Join(slices.Delete(slices.Clone(all), i, i+1), "\n")), strings.TrimSpace(all[i])
}

// noteWords returns the words of our line in a VM's notes, the mark first. They are empty without such
// a line.
func (v *VM) noteWords() []string {
	_, line := v.splitNotes()
	return strings.Fields(strings.TrimPrefix(line, notePrefix))
}

// noteHasMark reports whether the notes have a mark, and no tag names another owner.
func (v *VM) noteHasMark(owner, mark string) bool {
	words := v.noteWords()
	return len(words) > 0 && words[0] == mark && !slices.ContainsFunc(v.Tags, func(t string) bool {
		return strings.HasPrefix(t, ownerPrefix) && !HasOwnerTag(owner, []string{t})
	})
}

// claimedRanges returns the addresses that the VM's cluster takes beside those of its machines, as its
// notes say.
func (v *VM) claimedRanges() []Range {
	var out []Range
	words := v.noteWords()
	for _, w := range words[min(1, len(words)):] {
		if r, err := ParseRange(w); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// Addresses returns the addresses that the configuration gives the VM, and only those that are
// written there: none for DHCP.
func (v *VM) Addresses() []netip.Addr {
	var out []netip.Addr
	for key, line := range v.config {
		if strings.HasPrefix(key, "ipconfig") {
			out = append(out, addressesIn(line)...)
		}
	}
	sortBy(out, netip.Addr.Compare)
	return out
}

// addressesIn returns the addresses of an interface's line: ipconfigN of a VM, netN of a container.
func addressesIn(line string) []netip.Addr {
	var out []netip.Addr
	for _, key := range []string{"ip", "ip6"} {
		if p, err := netip.ParsePrefix(wire.ParseLenient(line).Get(key)); err == nil {
			out = append(out, p.Addr())
		}
	}
	return out
}

// diffAddress compares the address that others see with the wanted one.
func (s VMSpec) diffAddress(d *differ, vm *VM) {
	if !s.Address.IsValid() || s.Adopted {
		return
	}
	key := "ip"
	if s.Address.Addr().Is6() {
		key = "ip6"
	}
	const slot = "ipconfig0"
	line := key + "=" + s.Address.String()
	if s.Address6.IsValid() {
		line += ",ip6=" + s.Address6.String()
	}
	d.set(theAddress, "address", vm.config[slot], line, slot, line)
}

// Range is a range of addresses, both ends included.
type Range struct{ First, Last netip.Addr }

// ParseRange reads an address, a-b, or a prefix.
func ParseRange(text string) (Range, error) {
	if p, err := netip.ParsePrefix(text); err == nil {
		last := p.Masked().Addr().AsSlice()
		for bit := p.Bits(); bit < len(last)*8; bit++ {
			last[bit/8] |= 0x80 >> (bit % 8)
		}
		end, _ := netip.AddrFromSlice(last)
		return Range{p.Masked().Addr(), end}, nil
	}
	from, to, ranged := strings.Cut(text, "-")
	if !ranged {
		to = from
	}
	first, err := netip.ParseAddr(strings.TrimSpace(from))
	if err != nil {
		return Range{}, err
	}
	last, err := netip.ParseAddr(strings.TrimSpace(to))
	if err != nil {
		return Range{}, err
	}
	return Range{first, last}, nil
}

// Overlaps reports whether two ranges share an address.
func (r Range) Overlaps(o Range) bool {
	return r.First.Compare(o.Last) <= 0 && o.First.Compare(r.Last) <= 0 && r.First.Is4() == o.First.Is4()
}

// String returns the range as one writes it.
func (r Range) String() string {
	if r.First == r.Last {
		return r.First.String()
	}
	return fmt.Sprintf("%s-%s", r.First, r.Last)
}
