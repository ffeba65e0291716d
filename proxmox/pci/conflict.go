package pci

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Conflict is a set of devices that more VMs may want than there are devices.
type Conflict struct {
	Host    string
	Devices []unit.PCIAddress // by their first functions
	Claims  []Claim           // all claims on them, sorted by VMID and slot
	// Sure says that the VMs cannot all run at the same time, in any order of their starts. If it
	// is false they can, but it depends on that order.
	Sure bool
}

// String describes the conflict in one sentence.
func (c Conflict) String() string {
	var who []string
	for _, cl := range c.Claims {
		who = append(who, fmt.Sprintf("%s %s", cl, cl.Description()))
	}
	at := c.Cards()
	what := "is assigned to"
	if len(at) > 1 {
		what = "are assigned to"
	}
	if !c.Sure {
		what = "can only go to the first to start of"
	}
	return fmt.Sprintf("%s on %s %s %s", strings.Join(at, ", "), c.Host, what, strings.Join(who, "; "))
}

// Cards names the devices, each card once though several of its functions are devices.
func (c Conflict) Cards() []string {
	at := make([]string, len(c.Devices))
	for i, a := range c.Devices {
		at[i] = a.Whole().String()
	}
	return slices.Compact(at)
}

// Imminent reports whether the conflict can occur without a user starting a VM: at least two of its
// claims belong to VMs that run or start with the host.
func (c Conflict) Imminent() bool {
	n := 0
	for _, cl := range c.Claims {
		if cl.Running || cl.OnBoot {
			n++
		}
	}
	return n > 1
}

// Conflicts finds devices that are promised more than once: by the same address twice, or by a pool
// with fewer devices than VMs that use it. Templates and mediated devices do not count, and neither
// do devices that a VM holds only until its next start.
func (l *Ledger) Conflicts() []Conflict {
	byHost := map[string][]Claim{}
	for _, cl := range l.Claims {
		if !cl.Template && !cl.Shared && !cl.Leaving && len(cl.Choices) > 0 {
			byHost[cl.Host] = append(byHost[cl.Host], cl)
		}
	}
	var out []Conflict
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		for _, c := range conflictsOf(byHost[host]) {
			c.Host = host
			out = append(out, c)
		}
	}
	return out
}

// contest is a set of claims and the devices that they want. Functions that are passed through
// together are one device, identified by the first of them.
type contest struct {
	claims []Claim
	units  map[unit.PCIAddress]unit.PCIAddress // function to device
	wants  [][]unit.PCIAddress                 // by claim: the devices, any of which is acceptable
}

func conflictsOf(claims []Claim) []Conflict {
	c := &contest{claims: claims, units: map[unit.PCIAddress]unit.PCIAddress{}}
	for _, cl := range claims {
		for _, choice := range cl.Choices {
			for _, f := range choice {
				c.join(choice[0], f)
			}
		}
	}
	for _, cl := range claims {
		var want []unit.PCIAddress
		for _, choice := range cl.Choices {
			want = append(want, c.unit(choice[0]))
		}
		slices.SortFunc(want, unit.PCIAddress.Compare)
		c.wants = append(c.wants, slices.Compact(want))
	}
	var out []Conflict
	for _, part := range c.parts() {
		if conflict, ok := c.conflictOf(part); ok {
			out = append(out, conflict)
		}
	}
	return out
}

// unit returns the device that a function belongs to.
func (c *contest) unit(f unit.PCIAddress) unit.PCIAddress {
	for {
		up, ok := c.units[f]
		if !ok || up == f {
			return f
		}
		f = up
	}
}

func (c *contest) join(a, b unit.PCIAddress) {
	a, b = c.unit(a), c.unit(b)
	if a.Compare(b) > 0 {
		a, b = b, a
	}
	c.units[b], c.units[a] = a, a
}

// parts splits the claims, by index, into sets that share no device.
func (c *contest) parts() [][]int {
	var out [][]int
	seen := make([]bool, len(c.claims))
	for i := range c.claims {
		if seen[i] {
			continue
		}
		part, open := []int{}, []int{i}
		seen[i] = true
		for len(open) > 0 {
			at := open[0]
			part, open = append(part, at), open[1:]
			for j := range c.claims {
				if !seen[j] && slices.ContainsFunc(c.wants[at], func(u unit.PCIAddress) bool { return slices.Contains(c.wants[j], u) }) {
					seen[j], open = true, append(open, j)
				}
			}
		}
		slices.Sort(part)
		out = append(out, part)
	}
	return out
}

// conflictOf finds whether a claim of a part may get no device. That is possible if the other claims can
// take every device that it accepts.
func (c *contest) conflictOf(part []int) (Conflict, bool) {
	starves := slices.ContainsFunc(part, func(i int) bool {
		return allServed(c.wants[i], func(d unit.PCIAddress) []int {
			return slices.DeleteFunc(slices.Clone(part), func(j int) bool { return j == i || !slices.Contains(c.wants[j], d) })
		})
	})
	if !starves {
		return Conflict{}, false
	}
	var out Conflict
	for _, i := range part {
		out.Claims = append(out.Claims, c.claims[i])
		out.Devices = append(out.Devices, c.wants[i]...)
	}
	slices.SortFunc(out.Devices, unit.PCIAddress.Compare)
	out.Devices = slices.Compact(out.Devices)
	out.Sure = !allServed(part, func(i int) []unit.PCIAddress { return c.wants[i] })
	return out, true
}

// allServed reports whether each of all can have one of those that it accepts, at the same time.
func allServed[A, B comparable](all []A, accepts func(A) []B) bool {
	holder := map[B]A{}
	var serve func(a A, tried map[B]bool) bool
	serve = func(a A, tried map[B]bool) bool {
		return slices.ContainsFunc(accepts(a), func(b B) bool {
			if tried[b] {
				return false
			}
			tried[b] = true
			if has, busy := holder[b]; busy && !serve(has, tried) { // it is not moved to another
				return false
			}
			holder[b] = a
			return true
		})
	}
	return !slices.ContainsFunc(all, func(a A) bool { return !serve(a, map[B]bool{}) })
}
