package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Candidate reports whether a card matches the node's request.
func Candidate(n spec.Node, g pci.GPU) bool {
	if len(n.GPUs.PCI) > 0 {
		return slices.ContainsFunc(n.GPUs.PCI, func(a spec.PCIAddress) bool { return a.Whole() == g.Address.Whole() && !g.HasVirtualFunction(a) })
	}
	id, err := nvidia.ParsePCIID(g.ID())
	return nvidia.IsModel(n.GPUs.Model, id, g.Name) && (err == nil || n.GPUs.Model == "")
}

// mismatch says what a card is that does not match a request.
func mismatch(g pci.GPU) string {
	out := fmt.Sprintf("%s is %s", g.Address, withArticle(g.Name))
	id, _ := nvidia.ParsePCIID(g.ID()) // zero, which is in no table, if it is none
	if why := nvidia.UnsupportedReason(id); why != "" {
		out += ", and " + why
	}
	return out
}

// unsuitedReason says why a card cannot be divided or shared as the file asks of any card, or returns "". Of
// cards that the file names, other checks say it.
func unsuitedReason(n spec.Node, g pci.GPU) string {
	id, _ := nvidia.ParsePCIID(g.ID())
	kind, known := nvidia.Lookup(id)
	sharing := n.GPUs.Sharing
	every := len(sharing.Layouts) == 1 && len(sharing.Layouts[0].GPUs) == 0
	switch {
	case !known, len(n.GPUs.PCI) > 0, n.GPUs.Model != "":
	case sharing.Strategy == spec.SharingMIG && every && kind.MIGInstances == 0:
		return "it cannot be divided (MIG)"
	case sharing.Strategy == spec.SharingMPS && kind.MPSClients() == 0:
		return "it cannot be shared by MPS"
	}
	return ""
}

// choose selects a node's cards: those that it already has and those that the file names, or free
// ones that are next to each other. It is an error if a card that is requested by address is not
// available. A node that requests a number of cards gets another one instead.
func (b *book) choose(n spec.Node, kept []pci.GPU) ([]pci.GPU, error) {
	var free []freeCard
	var why []string
	for i, card := range b.ledger.Cards {
		at := card.Address.Whole()
		other, taken := b.strangers[at]
		switch ours := b.promised[at]; {
		case !Candidate(n, card.GPU):
			why = append(why, mismatch(card.GPU))
		case taken:
			why = append(why, fmt.Sprintf("%s belongs to %s", card.Address, other.who))
			if len(n.GPUs.PCI) > 0 {
				return nil, b.foreignClaimError(n, []pci.GPU{card.GPU})
			}
		case ours != "" && ours != n.Name:
			why = append(why, fmt.Sprintf("%s belongs to node %s", card.Address, ours))
		case card.Problem() != "":
			why = append(why, fmt.Sprintf("%s %s", card.Address, card.Problem()))
		default:
			mine := slices.ContainsFunc(kept, func(g pci.GPU) bool { return g.Address == card.Address })
			if cannot := unsuitedReason(n, card.GPU); cannot != "" && !mine {
				why = append(why, fmt.Sprintf("%s is %s: %s", card.Address, withArticle(card.Name), cannot))
				continue
			}
			free = append(free, freeCard{GPU: card.GPU, index: i, mine: mine})
		}
	}
	free, split := wholeGroups(free, func(a proxmox.PCIAddress) string { return b.holder(n, a) })
	// Cards that another node has yet to return are used only if no other is left.
	idle := slices.DeleteFunc(slices.Clone(free), func(s freeCard) bool {
		holder := b.current[s.Address.Whole().String()]
		return holder != "" && holder != n.Name
	})
	idle, _ = wholeGroups(idle, func(proxmox.PCIAddress) string { return "" })
	for _, seats := range [][]freeCard{idle, free} {
		if cards := allot(seats, n.GPUs.Count, len(b.ledger.Cards)); cards != nil {
			return cards, nil
		}
	}
	if len(split) > 0 && len(n.GPUs.PCI) > 0 {
		why = nil // the others are no matter
	}
	return nil, b.tooFewError(n, free, append(why, split...), len(split) > 0)
}

// holder says who has a card, in a sentence that begins with it, or why it is not for n.
func (b *book) holder(n spec.Node, a proxmox.PCIAddress) string {
	at := a.Whole()
	switch other := b.promised[at]; {
	case b.strangers[at].who != "":
		return "belongs to " + b.strangers[at].who
	case other != "" && other != n.Name:
		return "belongs to node " + other
	case len(n.GPUs.PCI) > 0:
		return fmt.Sprintf("%s does not name", n.Name)
	}
	card, _ := b.ledger.Card(b.host, a)
	return "is " + withArticle(card.Name)
}

// tooFewError explains why a node cannot have its cards. free are those that it could have, and split
// says that others are part of a group that it cannot have.
func (b *book) tooFewError(n spec.Node, free []freeCard, why []string, split bool) error {
	asked := GPUs(n.GPUs.Count)
	if n.GPUs.Model != "" {
		asked += " of model " + n.GPUs.Model
	}
	if len(n.GPUs.PCI) > 0 {
		asked = fmt.Sprintf("the GPUs at %v", n.GPUs.PCI)
	}
	for _, a := range n.GPUs.PCI {
		if card, there := b.ledger.Card(b.host, a); there && (card.HasVirtualFunction(a) || card.Address.Whole() != a.Whole()) {
			why = append(why, fmt.Sprintf("%s is a part of the card at %s (%s): name that", a, card.Address, card.Model))
		}
	}
	if together := groupsText(free); len(free) >= n.GPUs.Count && together != "" {
		return fmt.Errorf("%s requests %s, and of host %s's free ones these go to one VM together or to none: %s\n  %s", n.Name, asked, n.Host, together, cureOfGroup)
	}
	switch all := b.ledger.Cards; {
	case len(all) > 0 && len(why) == 0:
		why = []string{fmt.Sprintf("it has %d in all", len(all))}
	case len(all) == 0:
		why = []string{"it has none, or the token may not see them: grant it Sys.Audit on /"}
	}
	err := fmt.Errorf("%s requests %s, and host %s has %d available: %s", n.Name, asked, n.Host, len(free), strings.Join(why, "; "))
	if split {
		err = fmt.Errorf("%w\n  %s", err, cureOfGroup)
	}
	return err
}

// withArticle puts "a" or "an" before a name, as one says it: an AD102, a GA100, an RTX A4000.
func withArticle(name string) string {
	sounds := "AEIOUaeiou"
	if len(name) > 1 && (name[1] < 'a' || name[1] > 'z') { // spelt letter by letter
		sounds = "AEFHILMNORSX8"
	}
	if name != "" && strings.ContainsRune(sounds, rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// freeCard is a free card, and its position in the row of all cards of its host.
type freeCard struct {
	pci.GPU
	index int
	mine  bool
}

// fewer returns the cards that a node keeps if it has more than it requests.
func (b *book) fewer(n spec.Node, kept []pci.GPU) []pci.GPU {
	var seats []freeCard
	for i, card := range b.ledger.Cards {
		if slices.ContainsFunc(kept, func(g pci.GPU) bool { return g.Address == card.Address }) && b.strangers[card.Address.Whole()].who == "" && card.Problem() == "" {
			seats = append(seats, freeCard{GPU: card.GPU, index: i, mine: true})
		}
	}
	seats, _ = wholeGroups(seats, func(proxmox.PCIAddress) string { return "" })
	if cards := allot(seats, n.GPUs.Count, len(b.ledger.Cards)); cards != nil && len(seats) > n.GPUs.Count {
		return cards
	}
	return kept
}

// pick selects count of the free cards for a node. The node keeps the cards that it has, and gets
// free neighbours of those if there are any.
func pick(free []freeCard, count, all int) []pci.GPU {
	mine := slices.DeleteFunc(slices.Clone(free), func(s freeCard) bool { return !s.mine })
	switch {
	case len(mine) == 0:
		mine = closestTogether(free, count, all)
	case len(mine) > count:
		mine = closestTogether(mine, count, all)
	default:
		mine = nearestTo(mine, free, count, all)
	}
	out := make([]pci.GPU, len(mine))
	for i, s := range mine {
		out[i] = s.GPU
	}
	return out
}

// nearestTo adds free cards to those that a node has. Each is the card nearest to one of them,
// preferably on the same side of the middle, and in the same run (see [closestTogether]). Among equals it
// takes the first.
func nearestTo(mine, free []freeCard, count, all int) []freeCard {
	type score struct{ across, apart, askew, first int }
	far := func(s freeCard) score {
		out := score{across: 1, apart: all, askew: 1, first: s.index}
		for _, m := range mine {
			out.apart = min(out.apart, max(s.index-m.index, m.index-s.index))
			if all%2 != 0 || (s.index < all/2) == (m.index < all/2) {
				out.across = 0
			}
			if s.index/count == m.index/count {
				out.askew = 0
			}
		}
		return out
	}
	for len(mine) < count {
		left := slices.DeleteFunc(slices.Clone(free), func(s freeCard) bool { return seated(mine, s) })
		mine = append(mine, slices.MinFunc(left, func(x, y freeCard) int {
			a, b := far(x), far(y)
			return cmp.Or(cmp.Compare(a.across, b.across), cmp.Compare(a.apart, b.apart), cmp.Compare(a.askew, b.askew), cmp.Compare(a.first, b.first))
		}))
	}
	slices.SortFunc(mine, func(x, y freeCard) int { return cmp.Compare(x.index, y.index) })
	return mine
}

func seated(seats []freeCard, s freeCard) bool {
	return slices.ContainsFunc(seats, func(other freeCard) bool { return other.index == s.index })
}

// closestTogether picks count cards that are as close as possible. Proxmox's API does not show the
// NUMA node of a card, so this uses the order on the bus: boards give each socket a run of
// buses, the cards of a run are neighbours, and sockets have equally many. So: cards without
// others between them, not on both sides of the middle, and beginning where runs of that
// length begin, so that what is left over fits the next node as well. Among equals the first.
func closestTogether(free []freeCard, count, all int) []freeCard {
	var runs [][]freeCard
	for i := range len(free) - count + 1 {
		runs = append(runs, free[i:i+count])
	}
	score := func(run []freeCard) []int {
		first, last := run[0].index, run[count-1].index
		out := []int{last - first, 0, 0} // from end to end, over the middle, askew
		if all%2 == 0 && first < all/2 && last >= all/2 {
			out[1] = 1
		}
		if first%count != 0 {
			out[2] = 1
		}
		return out
	}
	return slices.MinFunc(runs, func(a, b []freeCard) int { return slices.Compare(score(a), score(b)) })
}

// describe names the cards that a node has or gets, and why:
// "0000:01:00, 0000:25:00: A100 PCIe 40GB, neighbours on the bus, IOMMU groups 21, 23 of their own".
func (b *book) describe(n spec.Node, cards []pci.GPU) string {
	var at, models, groups []string
	for _, g := range cards {
		at = append(at, g.Address.Whole().String())
		if group := fmt.Sprint(g.IOMMUGroup); !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		if !slices.Contains(models, g.Model) {
			models = append(models, g.Model)
		}
	}
	reasons := []string{b.reason(n, cards)}
	switch {
	case len(cards) == 1:
		reasons = append(reasons, "IOMMU group "+groups[0]+" of its own")
	case len(groups) == 1:
		reasons = append(reasons, "together in IOMMU group "+groups[0])
	default:
		reasons = append(reasons, "IOMMU groups "+strings.Join(groups, ", ")+" of their own")
	}
	if where := b.spec.Placed[n.Name]; where != "" {
		reasons = append(reasons, where)
	}
	return fmt.Sprintf("%s: %s", strings.Join(at, ", "), strings.Join(append(models, reasons...), ", "))
}

func (b *book) reason(n spec.Node, cards []pci.GPU) string {
	if len(n.GPUs.PCI) > 0 {
		return "named in the file"
	}
	index := func(g pci.GPU) int {
		return slices.IndexFunc(b.ledger.Cards, func(c pci.Card) bool { return c.Address == g.Address })
	}
	between := 0
	for i := 1; i < len(cards); i++ {
		between += index(cards[i]) - index(cards[i-1]) - 1
	}
	switch {
	case len(cards) == 1 && len(b.ledger.Cards) == 1:
		return "the only one"
	case len(cards) == 1:
		return "the first free one"
	case between == 0:
		return "neighbours on the bus"
	case between == 1:
		return "the closest free ones, with 1 other between them"
	}
	return fmt.Sprintf("the closest free ones, with %d others between them", between)
}

// GPUs is a number of them in words: 1 GPU, 2 GPUs.
func GPUs(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}
