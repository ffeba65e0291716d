package pci

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

func must(t testing.TB, text string) unit.PCIAddress {
	t.Helper()
	a, err := unit.ParsePCIAddress(text)
	require.NoError(t, err)
	return a
}

// A conflict is one where a claim can be left without a device, and it is a sure one where that is
// so in every order: small sites are tried in all ways. The order of the claims does not matter.
func TestConflictsOfSmallSites(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var sure, maybe int
	for range 3000 {
		claims := someClaims(r)
		var want []Conflict
		for _, host := range []string{"pve1", "pve2"} {
			want = append(want, conflictsInAllWays(slices.DeleteFunc(slices.Clone(claims), func(c Claim) bool {
				return c.Host != host || c.Template || c.Shared || c.Leaving || len(c.Choices) == 0
			}))...)
		}
		require.Equal(t, want, (&Ledger{Claims: claims}).Conflicts(), "in the order of the claims: %+v", claims)
		for _, c := range want {
			if c.Sure {
				sure++
			} else {
				maybe++
			}
		}
		r.Shuffle(len(claims), func(i, k int) { claims[i], claims[k] = claims[k], claims[i] })
		require.Equal(t, sorted(want), sorted((&Ledger{Claims: claims}).Conflicts()), "in another order: %+v", claims)
	}
	assert.Greater(t, min(sure, maybe), 200, "both kinds are met")
}

// someClaims are up to six claims on some of eight functions of four devices.
func someClaims(r *rand.Rand) []Claim {
	claims := make([]Claim, r.IntN(7))
	for i := range claims {
		odd := r.IntN(12)
		claims[i] = Claim{Host: "pve1", VMID: 100 + i, Template: odd == 0, Shared: odd == 1, Leaving: odd == 2}
		if odd == 3 {
			claims[i].Host = "pve2"
		}
		for range r.IntN(4) {
			first := unit.PCIAddress{Bus: uint8(r.IntN(4)), Function: r.IntN(2)}
			choice := []unit.PCIAddress{first}
			if r.IntN(3) == 0 { // a whole device, or two of them
				choice = append(choice, unit.PCIAddress{Bus: first.Bus + uint8(r.IntN(5)/4), Function: 1 - first.Function})
			}
			claims[i].Choices = append(claims[i].Choices, choice)
		}
	}
	return claims
}

// sorted orders conflicts and their claims.
func sorted(all []Conflict) []Conflict {
	for _, c := range all {
		slices.SortFunc(c.Claims, func(a, b Claim) int { return cmp.Compare(a.VMID, b.VMID) })
	}
	slices.SortFunc(all, func(a, b Conflict) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), a.Devices[0].Compare(b.Devices[0]))
	})
	return all
}

// conflictsInAllWays finds the conflicts of a host's claims by trying who could have what.
func conflictsInAllWays(claims []Claim) []Conflict {
	device := func(f unit.PCIAddress) unit.PCIAddress { // the first of all that go with f
		with := []unit.PCIAddress{f}
		for i := 0; i < len(with); i++ {
			for _, c := range claims {
				for _, choice := range c.Choices {
					if slices.Contains(choice, with[i]) {
						with = append(with, slices.DeleteFunc(slices.Clone(choice), func(o unit.PCIAddress) bool { return slices.Contains(with, o) })...)
					}
				}
			}
		}
		return slices.MinFunc(with, unit.PCIAddress.Compare)
	}
	wants := map[int][]unit.PCIAddress{}
	for _, c := range claims {
		for _, choice := range c.Choices {
			if d := device(choice[0]); !slices.Contains(wants[c.VMID], d) {
				wants[c.VMID] = append(wants[c.VMID], d)
			}
		}
	}
	var out []Conflict
	for left := slices.Clone(claims); len(left) > 0; {
		part := Conflict{Host: left[0].Host, Devices: wants[left[0].VMID]}
		shares := func(c Claim) bool {
			return slices.ContainsFunc(wants[c.VMID], func(d unit.PCIAddress) bool { return slices.Contains(part.Devices, d) })
		}
		for i := slices.IndexFunc(left, shares); i >= 0; i = slices.IndexFunc(left, shares) {
			part.Claims, part.Devices = append(part.Claims, left[i]), append(slices.Clone(part.Devices), wants[left[i].VMID]...)
			left = slices.Delete(left, i, i+1)
		}
		slices.SortFunc(part.Devices, unit.PCIAddress.Compare)
		part.Devices = slices.Compact(part.Devices)
		sorted([]Conflict{part})
		for i, c := range part.Claims {
			others := slices.Delete(slices.Clone(part.Claims), i, i+1)
			if allTaken(wants[c.VMID], others, wants) {
				part.Sure = !allServedInSomeWay(part.Claims, wants, nil)
				out = append(out, part)
				break
			}
		}
	}
	return out
}

func allTaken(devices []unit.PCIAddress, by []Claim, wants map[int][]unit.PCIAddress) bool {
	if len(devices) == 0 {
		return true
	}
	for i, c := range by {
		if slices.Contains(wants[c.VMID], devices[0]) && allTaken(devices[1:], slices.Delete(slices.Clone(by), i, i+1), wants) {
			return true
		}
	}
	return false
}

func allServedInSomeWay(claims []Claim, wants map[int][]unit.PCIAddress, gone []unit.PCIAddress) bool {
	if len(claims) == 0 {
		return true
	}
	return slices.ContainsFunc(wants[claims[0].VMID], func(d unit.PCIAddress) bool {
		return !slices.Contains(gone, d) && allServedInSomeWay(claims[1:], wants, append(slices.Clone(gone), d))
	})
}

// A conflict matters now if two who run, or start with the host, are in it.
func TestConflictsThatAreAlive(t *testing.T) {
	stopped, running, boots := Claim{}, Claim{Running: true}, Claim{OnBoot: true}
	for _, tt := range []struct {
		claims []Claim
		want   bool
	}{
		{[]Claim{stopped, stopped}, false}, {[]Claim{running, stopped}, false}, {[]Claim{stopped, boots}, false},
		{[]Claim{running, boots}, true}, {[]Claim{boots, stopped, boots}, true}, {[]Claim{{Running: true, OnBoot: true}, stopped}, false},
	} {
		assert.Equal(t, tt.want, Conflict{Claims: tt.claims}.Imminent(), "%+v", tt.claims)
	}
}

// It is said once of a card, which VMs it is promised to.
func TestWhatAConflictSays(t *testing.T) {
	by := []Claim{{VMID: 100, Name: "a", Slot: "hostpci0"}, {VMID: 101, Name: "b", Slot: "hostpci1"}}
	const who = "VM 100 (a) by address as hostpci0, stopped; VM 101 (b) by address as hostpci1, stopped"
	for want, c := range map[string]Conflict{
		"0000:41:00 on pve1 is assigned to " + who:                       {Sure: true, Devices: []unit.PCIAddress{must(t, "41:00.0")}},
		"0000:41:00, 0000:42:00 on pve1 are assigned to " + who:          {Sure: true, Devices: []unit.PCIAddress{must(t, "41:00.0"), must(t, "42:00.0")}},
		"0000:41:00 on pve1 can only go to the first to start of " + who: {Devices: []unit.PCIAddress{must(t, "41:00.0"), must(t, "41:00.1")}},
		"0000:41:00 on pve1 is assigned to " + who + "; container 102 (c) by /dev/nvidia0 as dev0, running": {
			Sure: true, Devices: []unit.PCIAddress{must(t, "41:00.0")}, Claims: append(slices.Clone(by), Claim{Container: true, VMID: 102, Name: "c", Device: "/dev/nvidia0", Slot: "dev0", Running: true}),
		},
	} {
		c.Host = "pve1"
		if c.Claims == nil {
			c.Claims = by
		}
		assert.Equal(t, want, c.String())
	}
}
