package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Allotment says which node gets which card of a host. It is computed at every observation, for all
// nodes of the host at once: first for those that want a model, else in the order of the file, so
// that concurrent nodes and later runs get the same result.
type Allotment struct {
	Mappings []pci.MappingState
	Shares   map[string]Share  // by node
	current  map[string]string // card to the node of ours that currently has it, by its mapping
	left     []pci.GPU         // cards that fit for VMs and that nobody has, wants by name, or gets
}

// Share is the cards of one node.
type Share struct {
	Cards []pci.GPU // none if the file names mappings
	Why   string    // which cards, and why those
	Err   error     // why the node cannot have the cards that it requests
	// Certain says that no other card of the host can be the node's: if its machine runs with as
	// many, it has these, also without a mapping that says so.
	Certain bool
}

// Allot assigns the cards of a host to the nodes on it that request some. ledger has all claims
// except those of our own VMs.
func Allot(s *spec.Spec, host string, ledger *pci.Ledger) *Allotment {
	b := &book{
		spec: s, host: host, ledger: ledger, nodes: map[string]spec.Node{},
		strangers: map[proxmox.PCIAddress]foreignClaim{}, promised: map[proxmox.PCIAddress]string{}, current: map[string]string{},
	}
	out := &Allotment{Mappings: ledger.Mappings, Shares: map[string]Share{}, current: b.current}
	var nodes []spec.Node
	for _, n := range s.GPUMachines() {
		if n.OnProxmox() && n.Host == host {
			nodes, b.nodes[n.Name] = append(nodes, n), n
		}
	}
	slices.SortStableFunc(nodes, func(x, y spec.Node) int { return cmp.Compare(min(len(y.GPUs.Model), 1), min(len(x.GPUs.Model), 1)) })
	b.enterForeign()
	b.enterPromises(nodes)
	for _, n := range nodes {
		m := Mapping(ledger.Mappings, names.Mapping(s, n.Name))
		if m != nil && m.Description == names.MappingNote(s) && len(n.GPUs.Mapping) == 0 {
			for _, a := range Addresses(m, host) {
				out.current[a] = n.Name
			}
		}
	}
	b.enterKept(nodes)
	for _, n := range nodes {
		kept, has := b.mappedCards(n)
		share := b.share(n, kept, has)
		share.Certain = b.isCertain(n)
		out.Shares[n.Name] = share
		for _, g := range out.Shares[n.Name].Cards {
			b.promised[g.Address.Whole()] = n.Name
		}
	}
	for _, card := range ledger.Cards {
		at := card.Address.Whole()
		if b.promised[at] == "" && b.strangers[at].who == "" && card.Problem() == "" {
			out.left = append(out.left, card.GPU)
		}
	}
	return out
}

// book is the state of a host's cards during the assignment.
type book struct {
	spec      *spec.Spec
	host      string
	ledger    *pci.Ledger
	nodes     map[string]spec.Node                // ours on this host that request cards
	strangers map[proxmox.PCIAddress]foreignClaim // other owners' claims, by whole card
	promised  map[proxmox.PCIAddress]string       // to one of our nodes, by whole card
	current   map[string]string                   // card to the node of ours that currently has it, by its mapping
}

// foreignClaim is another owner's claim on a card.
type foreignClaim struct {
	who, cure string
	container bool // which card a container has is known by its number alone
}

// enterForeign adds the claims of other owners' VMs, running or not, and of mappings that other
// clusters have made, even if they are not in use yet.
func (b *book) enterForeign() {
	for _, card := range b.ledger.Cards {
		at := card.Address.Whole()
		for _, id := range card.Mappings {
			m := Mapping(b.ledger.Mappings, id)
			if name := names.OtherMappingCluster(b.spec, m.Description); name != "" {
				b.strangers[at] = foreignClaim{who: fmt.Sprintf("cluster %s, by its mapping %s", name, id), cure: "remove the node from that cluster's file and run cluster:up there, or give this node another card"}
			}
		}
		for _, claim := range card.Claims {
			if known := b.strangers[at].who != ""; known && (!claim.Running || claim.Container) { // who runs is named, and no guess
				continue
			}
			if !claim.Template && b.adoptingNode(claim) == "" && !b.copied(claim) {
				b.strangers[at] = foreignClaim{fmt.Sprintf("%s, %s", claim, claim.Description()),
					claim.ReleaseCommand() + ", or give the node another card", claim.Container}
			}
		}
	}
}

// copied reports whether a claim belongs to a copy of one of our machines, and uses that machine's
// mapping. The card stays with the machine; the copy is reported as a stray.
func (b *book) copied(cl pci.Claim) bool {
	m := Mapping(b.ledger.Mappings, cl.Mapping)
	return m != nil && m.Description == names.MappingNote(b.spec) && slices.Contains(cl.Tags, names.Tag(b.spec))
}

// adoptingNode returns the node that takes over another owner's VM.
func (b *book) adoptingNode(cl pci.Claim) string {
	if n, ours := b.nodes[cl.Name]; ours && n.Adopt && cl.Host == b.host {
		return n.Name
	}
	return ""
}

// enterPromises reserves the cards that the file names, by address or through mappings, and the
// cards of machines that are taken over. Nodes that request only a number of cards get none of
// these.
func (b *book) enterPromises(nodes []spec.Node) {
	for _, card := range b.ledger.Cards {
		for _, cl := range card.Claims {
			if node := b.adoptingNode(cl); node != "" {
				b.promised[card.Address.Whole()] = node
			}
		}
	}
	for _, n := range nodes {
		for _, a := range n.GPUs.PCI {
			b.promised[a.Whole()] = n.Name
		}
		for _, id := range n.GPUs.Mapping {
			for _, choice := range b.ledger.MappingChoices(b.host, id) {
				for _, at := range choice {
					b.promised[at.Whole()] = n.Name
				}
			}
		}
	}
}

// enterKept reserves the cards that nodes already have and may keep. A card that is kept moves to
// another node only if the file names it. If a node has more cards than it requests, the others are
// free.
func (b *book) enterKept(nodes []spec.Node) {
	for _, n := range nodes {
		kept, _ := b.mappedCards(n)
		for _, g := range b.fewer(n, kept) {
			b.promised[g.Address.Whole()] = n.Name
		}
	}
}

// mappedCards returns the cards that a node's mapping already has, and whether they are what the node
// requests.
func (b *book) mappedCards(n spec.Node) (cards []pci.GPU, enough bool) {
	if len(n.GPUs.Mapping) > 0 {
		return
	}
	m := Mapping(b.ledger.Mappings, names.Mapping(b.spec, n.Name))
	if m == nil && n.Adopt {
		for _, card := range b.ledger.Cards {
			if b.promised[card.Address.Whole()] == n.Name && Candidate(n, card.GPU) {
				cards = append(cards, card.GPU)
			}
		}
		return cards, false // its mapping does not exist yet
	}
	if m == nil || m.Description != names.MappingNote(b.spec) {
		return nil, false
	}
	for _, a := range Addresses(m, b.host) {
		at, _ := proxmox.ParsePCIAddress(a) // it was written by its own String
		card, there := b.ledger.Card(b.host, at)
		other := b.promised[at]
		if there && Candidate(n, card.GPU) && (other == "" || other == n.Name) {
			cards = append(cards, card.GPU)
		}
	}
	return cards, len(cards) == n.GPUs.Count
}

// share assigns one node its cards.
func (b *book) share(n spec.Node, kept []pci.GPU, enough bool) Share {
	if m := Mapping(b.ledger.Mappings, names.Mapping(b.spec, n.Name)); len(n.GPUs.Mapping) == 0 && m != nil && m.Description != names.MappingNote(b.spec) {
		return Share{Err: converge.Permanent(fmt.Errorf("homelab did not create the resource mapping %s (its description is %q)\n"+
			"  name it under gpus.mapping of %s to use it unchanged, or remove it", m.ID, m.Description, n.Name))}
	}
	switch {
	case len(n.GPUs.Mapping) > 0:
		return Share{Err: b.checkForeignMappings(n)}
	case enough:
		return Share{Cards: kept, Why: b.describe(n, kept), Err: b.keptClaimError(n, kept)}
	}
	cards, err := b.choose(n, kept)
	if err != nil {
		return Share{Err: converge.Permanent(err)}
	}
	return Share{Cards: cards, Why: b.describe(n, cards)}
}

// isCertain reports whether exactly as many cards as a node requests are neither another node's, by
// its mapping, nor held by another owner's running VM.
func (b *book) isCertain(n spec.Node) bool {
	free := 0
	for _, card := range b.ledger.Cards {
		holder := b.current[card.Address.Whole().String()]
		held := slices.ContainsFunc(card.Claims, func(cl pci.Claim) bool { return cl.Running && len(cl.Choices) == 1 })
		if (holder == "" || holder == n.Name) && !held {
			free++
		}
	}
	return free == n.GPUs.Count
}

// foreignClaimError returns an error if another owner has a claim on one of the cards.
func (b *book) foreignClaimError(n spec.Node, cards []pci.GPU) error {
	for _, g := range cards {
		if other, ok := b.strangers[g.Address.Whole()]; ok {
			return converge.Permanent(fmt.Errorf("GPU %s on %s is claimed twice: by %s, and by %s\n  %s",
				g.Address.Whole(), b.host, n.Name, other.who, other.cure))
		}
	}
	return nil
}

// keptClaimError is foreignClaimError for cards that the node has. The host's driver has lost them, so no
// container has one, whatever its configuration says.
func (b *book) keptClaimError(n spec.Node, cards []pci.GPU) error {
	return b.foreignClaimError(n,
		slices.DeleteFunc(slices.Clone(cards), func(g pci.GPU) bool { return b.strangers[g.Address.Whole()].container }))
}

// checkForeignMappings checks a node that uses another owner's mappings: all VMs that use these mappings, or their
// cards in another way, must be able to run at the same time.
func (b *book) checkForeignMappings(n spec.Node) error {
	for _, id := range n.GPUs.Mapping {
		if why := b.ledger.MappingProblem(b.host, id); why != "" {
			return converge.Permanent(fmt.Errorf("gpus.mapping of %s: %s: %s\n  name mappings of NVIDIA cards, or write gpus: %d to have homelab choose them", n.Name, id, why, n.GPUs.Count))
		}
	}
	if err := b.checkGroups(n); err != nil {
		return err
	}
	all := &pci.Ledger{Claims: slices.DeleteFunc(slices.Clone(b.ledger.Claims), func(cl pci.Claim) bool { return b.adoptingNode(cl) != "" })}
	for _, name := range b.spec.Machines() {
		if node, ours := b.nodes[name.Name]; ours {
			all.Claims = append(all.Claims, b.claims(node)...)
		}
	}
	for _, conflict := range all.Conflicts() {
		if slices.ContainsFunc(conflict.Claims, func(cl pci.Claim) bool { return cl.VMID == 0 && cl.Name == n.Name }) {
			return converge.Permanent(fmt.Errorf("gpus.mapping of %s: %s\n  give the mapping more cards, or remove it from one of them", n.Name, ConflictText(conflict)))
		}
	}
	return nil
}

// checkGroups refuses mappings whose cards share groups with cards that another VM has.
func (b *book) checkGroups(n spec.Node) error {
	for _, id := range n.GPUs.Mapping {
		for _, choice := range b.ledger.MappingChoices(b.host, id) {
			card, _ := b.ledger.Card(b.host, choice[0])
			for _, mate := range card.GroupMembers {
				if who := b.holder(n, mate.Address); strings.HasPrefix(who, "belongs") {
					return converge.Permanent(fmt.Errorf("gpus.mapping of %s: %s: %s shares IOMMU group %d with %s, which %s\n  %s",
						n.Name, id, card.Address, card.IOMMUGroup, mate.Address, who, cureOfGroup))
				}
			}
		}
	}
	return nil
}

// claims returns the claims that a node makes through the mappings in the file.
func (b *book) claims(n spec.Node) []pci.Claim {
	var out []pci.Claim
	for i, id := range n.GPUs.Mapping {
		out = append(out, pci.Claim{Host: b.host, Name: n.Name, Slot: fmt.Sprintf("hostpci%d", i), Mapping: id,
			Choices: b.ledger.MappingChoices(b.host, id)})
	}
	for i, a := range n.GPUs.PCI {
		if card, ok := b.ledger.Card(b.host, a); ok {
			out = append(out, pci.Claim{Host: b.host, Name: n.Name, Slot: fmt.Sprintf("hostpci%d", i), Choices: [][]proxmox.PCIAddress{{card.Address}}})
		}
	}
	return out
}

// ConflictText describes a conflict. It names our nodes by their names, because they may have no VM
// yet.
func ConflictText(c pci.Conflict) string {
	var who []string
	for _, cl := range c.Claims {
		text := fmt.Sprintf("%s %s", cl, cl.Description())
		if cl.VMID == 0 {
			text = fmt.Sprintf("node %s", cl.Name)
		}
		if !slices.Contains(who, text) {
			who = append(who, text)
		}
	}
	return fmt.Sprintf("%s on %s cannot serve all who may want them: %s", strings.Join(c.Cards(), ", "), c.Host, strings.Join(who, "; "))
}

// Holders lists our nodes that have, by their mappings, a card that is assigned to node, and the
// nodes that those wait for in turn.
func (a *Allotment) Holders(node string) []string {
	var out []string
	var follow func(name string)
	follow = func(name string) {
		for _, g := range a.Shares[name].Cards {
			holder := a.current[g.Address.Whole().String()]
			if holder != "" && holder != name && holder != node && !slices.Contains(out, holder) {
				out = append(out, holder)
				follow(holder)
			}
		}
	}
	follow(node)
	return out
}

// AddHeld enters that a node's machine still has cards which it no longer gets by a mapping of its own:
// the node that gets them waits for it. Which cards are chosen does not depend on it.
func (a *Allotment) AddHeld(node string, cards []string) {
	for _, card := range cards {
		if a.current[card] == "" {
			a.current[card] = node
		}
	}
}

// ExchangeCycle lists the nodes that get each other's cards round in a circle with node, sorted; nil if
// there is none.
func (a *Allotment) ExchangeCycle(node string) []string {
	circle := []string{node}
	for _, other := range a.Holders(node) {
		if slices.Contains(a.Holders(other), node) {
			circle = append(circle, other)
		}
	}
	if len(circle) == 1 {
		return nil
	}
	slices.Sort(circle)
	return circle
}

// Mapping returns the mapping with an ID, or nil.
func Mapping(all []pci.MappingState, id string) *pci.MappingState {
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// Addresses lists the cards that a mapping has on a host, sorted.
func Addresses(m *pci.MappingState, host string) []string {
	var out []string
	for _, d := range m.Devices {
		if d.Host == host {
			out = append(out, d.Address.Whole().String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
