package placement

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Cards of one IOMMU group go to one VM: vfio gives a group to one process.

// cureOfGroup is what helps when cards of one group should go to several VMs.
const cureOfGroup = "give one node all cards of the group, or put one card into another slot, or switch on ACS in the firmware"

// wholeGroups returns the seats whose groups are complete among them, and a remark for each other one.
// belongs says who has a card that is not among them.
func wholeGroups(free []freeCard, belongs func(proxmox.PCIAddress) string) (out []freeCard, why []string) {
	at := map[proxmox.PCIAddress]bool{}
	for _, s := range free {
		at[s.Address] = true
	}
	for _, s := range free {
		missing := slices.IndexFunc(s.GroupMembers, func(m pci.Function) bool { return !at[m.Address] })
		if missing < 0 {
			out = append(out, s)
			continue
		}
		mate := s.GroupMembers[missing]
		why = append(why, fmt.Sprintf("%s shares IOMMU group %d with %s, which %s", s.Address, s.IOMMUGroup, mate.Address, belongs(mate.Address)))
	}
	return out, why
}

// allot picks count of the seats, groups undivided: none if that cannot be. It takes cards without
// a group of several first, unless the node has others.
func allot(free []freeCard, count, all int) []pci.GPU {
	single := slices.DeleteFunc(slices.Clone(free), func(s freeCard) bool { return len(s.GroupMembers) > 0 })
	var groups [][]freeCard
	for _, s := range free {
		i := slices.IndexFunc(groups, func(g []freeCard) bool { return g[0].IOMMUGroup == s.IOMMUGroup })
		switch {
		case len(s.GroupMembers) == 0:
		case i < 0:
			groups = append(groups, []freeCard{s})
		default:
			groups[i] = append(groups[i], s)
		}
	}
	groups = groups[:min(len(groups), maxGroups)]
	best, bestOf := -1, [2]int{}
	for set := range 1 << len(groups) {
		size, mine := countGroups(groups, set)
		if size > count || count-size > len(single) {
			continue
		}
		if of := [2]int{-mine, size}; best < 0 || slices.Compare(of[:], bestOf[:]) < 0 {
			best, bestOf = set, of
		}
	}
	if best < 0 {
		return nil
	}
	var out []pci.GPU
	for i, g := range groups {
		for _, s := range g {
			if best>>i&1 == 1 {
				out = append(out, s.GPU)
			}
		}
	}
	if rest := count - len(out); rest > 0 {
		out = append(out, pick(single, rest, all)...)
	}
	slices.SortFunc(out, func(a, b pci.GPU) int { return a.Address.Compare(b.Address) })
	return out
}

// maxGroups bounds the sets of groups that are tried; a VM takes 16 devices.
const maxGroups = 16

// countGroups counts the cards of a set of groups, and those that the node has.
func countGroups(groups [][]freeCard, set int) (size, mine int) {
	for ; set != 0; set &= set - 1 {
		g := groups[bits.TrailingZeros(uint(set))]
		size += len(g)
		for _, s := range g {
			if s.mine {
				mine++
			}
		}
	}
	return size, mine
}

// groupsText names the cards that only go together, by their groups.
func groupsText(free []freeCard) string {
	var out []string
	seen := map[int]bool{}
	for _, s := range free {
		if len(s.GroupMembers) == 0 || seen[s.IOMMUGroup] {
			continue
		}
		seen[s.IOMMUGroup] = true
		at := []string{s.Address.Whole().String()}
		for _, m := range s.GroupMembers {
			at = append(at, m.Address.Whole().String())
		}
		slices.Sort(at)
		out = append(out, fmt.Sprintf("%s share IOMMU group %d", strings.Join(at, ", "), s.IOMMUGroup))
	}
	return strings.Join(out, "; ")
}
