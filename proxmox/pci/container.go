package pci

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Container is a container (LXC) of a host, as far as devices matter.
type Container struct {
	Host    string
	VMID    int
	Name    string
	Tags    []string
	Running bool
	OnBoot  bool
	Entries []Entry // of its configuration: dev0, mp0, and LXC's own keys
}

// Entry is a line of a container's configuration.
type Entry struct{ Key, Value string }

var (
	nvidiaDevice = regexp.MustCompile(`/dev/nvidia(\d+)\b`)
	// Such a container gets every card that the host's driver has: LXC's hook asks NVIDIA's
	// container library, which reads this variable.
	everyNVIDIA = regexp.MustCompile(`hooks/nvidia|NVIDIA_VISIBLE_DEVICES=(all|\d)`)
)

// enter adds the claims of a container. Its configuration names devices of the host's driver,
// /dev/nvidia0 and so on, and nothing says which card that is: the driver counts the cards that it
// has, in the order of their addresses. Those are the ones that no VM claims and no mapping offers.
// If there are fewer, it may be any card of that number.
func (l *Ledger) enter(ct Container) {
	for _, e := range ct.Entries {
		claim := Claim{Host: ct.Host, VMID: ct.VMID, Name: ct.Name, Tags: ct.Tags, Running: ct.Running, OnBoot: ct.OnBoot, Container: true, Slot: e.Key}
		for _, m := range nvidiaDevice.FindAllStringSubmatch(e.Value, -1) {
			n, err := strconv.Atoi(m[1])
			if card := l.cardByNumber(ct.Host, n); err == nil && card != nil {
				claim.Device = m[0]
				l.claim(claim, card)
			}
		}
		if everyNVIDIA.MatchString(e.Value) {
			claim.Device = "NVIDIA's hook"
			for i := range l.Cards {
				if card := &l.Cards[i]; card.Host == ct.Host && card.isUnclaimed() {
					l.claim(claim, card)
				}
			}
		}
	}
}

// isUnclaimed reports whether no VM claims a card and no mapping offers it.
func (c *Card) isUnclaimed() bool {
	return len(c.Mappings) == 0 && !slices.ContainsFunc(c.Claims, func(cl Claim) bool { return !cl.Container })
}

// cardByNumber returns the card that the host's driver counts as number n, from 0, or nil.
func (l *Ledger) cardByNumber(host string, n int) *Card {
	var all, own []*Card
	for i := range l.Cards {
		card := &l.Cards[i]
		if card.Host != host {
			continue
		}
		all = append(all, card)
		if card.isUnclaimed() {
			own = append(own, card)
		}
	}
	switch {
	case n < len(own):
		return own[n]
	case n < len(all):
		return all[n]
	}
	return nil
}

// claim enters a container's claim on a card, once.
func (l *Ledger) claim(claim Claim, card *Card) {
	if slices.ContainsFunc(card.Claims, func(cl Claim) bool { return cl.Container && cl.VMID == claim.VMID }) {
		return
	}
	functions := []unit.PCIAddress{card.Address}
	for _, f := range card.Functions {
		functions = append(functions, f.Address)
	}
	claim.Choices = [][]unit.PCIAddress{functions}
	l.Claims, card.Claims = append(l.Claims, claim), append(card.Claims, claim)
}

// MayNameGPU reports whether an entry of a container's configuration may name a GPU.
func (e Entry) MayNameGPU() bool {
	return strings.Contains(e.Value, "nvidia") || strings.Contains(e.Value, "NVIDIA")
}
