package gpu

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// profile is a size of instance, as nvidia-smi mig -lgip lists it.
type profile struct {
	name    string
	id      int
	most    int
	size    int // slices of memory
	sms     int // multiprocessors
	gib     float64
	starts  []int
	special bool // it takes the media engine of which there is one
}

// slices is how many slices of compute an instance has: the first digit of its name.
func (f profile) slices() int { return int(f.name[0] - '0') }

// copies is how many copy engines an instance has: one for each slice of compute, and all of the
// card's for the whole card.
func (f profile) copies() int {
	if f.slices() == 7 {
		return 8
	}
	return f.slices()
}

// engines is how many decoders an instance of the card has, and as many for JPEG; 0: not known.
func (c Card) engines(f profile) int {
	if c.arch == hopper {
		return f.slices()
	}
	return 0
}

// profiles are those of the chips that the tests use; nil: the card cannot be divided.
//
// Source: MIG User Guide (610): "Supported MIG Profiles", and the output of -lgip and -lgipp in
// "Getting Started with MIG"; outputs of an A30 and an RTX PRO 6000 in public repositories; those of
// an H100 80GB HBM3 and an H200 as driver 580.159.04 lists them.
func (c Card) profiles() []profile {
	switch c.Device {
	case 0x20b0, 0x20f1:
		return sevenths([6]int{5, 10, 10, 20, 20, 40}, 4.75, 14)
	case 0x20b2, 0x20b5:
		return sevenths([6]int{10, 20, 20, 40, 40, 80}, 9.5, 14)
	case 0x2330, 0x2331:
		return ofHopper([6]int{10, 20, 20, 40, 40, 80}, [4]float64{9.75, 19.62, 39.5, 79.25})
	case 0x2335:
		return ofHopper([6]int{18, 35, 35, 71, 71, 141}, [4]float64{16, 32.5, 69.75, 140})
	case 0x2901:
		return sevenths([6]int{23, 45, 45, 90, 90, 180}, 21.5, 18)
	case 0x20b7:
		return []profile{
			{"1g.6gb", 14, 4, 1, 14, 5.81, []int{0, 1, 2, 3}, false}, {"1g.6gb+me", 21, 1, 1, 14, 5.81, []int{0, 1, 2, 3}, true},
			{"2g.12gb", 5, 2, 2, 28, 11.69, []int{0, 2}, false}, {"2g.12gb+me", 6, 1, 2, 28, 11.69, []int{0, 2}, true}, {"4g.24gb", 0, 1, 4, 56, 23.44, []int{0}, true},
		}
	case 0x2bb1:
		return []profile{
			{"1g.24gb", 14, 4, 1, 46, 23.62, []int{0, 1, 2, 3}, false}, {"1g.24gb+me", 21, 1, 1, 46, 23.62, []int{0, 1, 2, 3}, true},
			{"2g.48gb", 5, 2, 2, 94, 47.38, []int{0, 2}, false}, {"4g.96gb", 0, 1, 4, 188, 95, []int{0}, true},
		}
	}
	return nil
}

func sevenths(gb [6]int, gib float64, sms int) []profile {
	every := []int{0, 1, 2, 3, 4, 5, 6}
	name := func(g, at int) string { return fmt.Sprintf("%dg.%dgb", g, gb[at]) }
	return []profile{
		{name(1, 0), 19, 7, 1, sms, gib, every, false}, {name(1, 0) + "+me", 20, 1, 1, sms, gib, every, true}, {name(1, 1), 15, 4, 2, sms, gib * 2, []int{0, 2, 4, 6}, false},
		{name(2, 2), 14, 3, 2, 2 * sms, gib * 2, []int{0, 2, 4}, false}, {name(3, 3), 9, 2, 4, 3 * sms, gib * 4, []int{0, 4}, false},
		{name(4, 4), 5, 1, 4, 4 * sms, gib * 4, []int{0}, false}, {name(7, 5), 0, 1, 8, 7 * sms, gib * 8, []int{0}, true},
	}
}

// ofHopper are the profiles of an H100 or H200; gib is the memory of one, two, four and eight slices.
func ofHopper(gb [6]int, gib [4]float64) []profile {
	out := sevenths(gb, 0, 0)
	for i, sms := range []int{16, 16, 26, 32, 60, 64, 132} {
		f := &out[i]
		f.sms, f.gib = sms, gib[bits.Len(uint(f.size))-1]
	}
	return out
}

// instance is a GPU instance of a divided card.
type instance struct {
	profile
	number int // nvidia-smi's "GPU instance ID"
	start  int
	ready  bool // it has a compute instance, without which no program can use it
	uuid   string
}

// partitions is how cards are divided, and from Hopper on also the mode. It ends with the power.
type partitions struct {
	mu   sync.Mutex
	mode map[string]bool
	all  map[string][]instance // by the card's place on the host
}

// resetCards does what switching the machine on does to Ampere's MIG mode. A reboot from within
// leaves the cards alone.
func resetCards(s *machine.System) {
	if s.Warm() || s.Faulty(func(f machine.Faults) bool { return f.MIGModeSticks }) {
		return
	}
	for _, p := range s.Config.PCI {
		p.InfoROM.Reset()
	}
}

// migMode is a card's MIG mode now, and after a reset.
func migMode(s *machine.System, c Card) (now, pending bool) {
	if c.arch > ampere {
		p := machine.StateOf[partitions](s)
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.mode[c.Host], p.mode[c.Host]
	}
	return c.InfoROM.MIG()
}

// setMode sets a card's MIG mode. From Hopper on it is in force at once; on Ampere after a reset
// of the card, which the guest of a hypervisor may not do.
func setMode(s *machine.System, c Card, on bool) {
	if c.arch > ampere {
		p := machine.StateOf[partitions](s)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mode == nil {
			p.mode = map[string]bool{}
		}
		p.mode[c.Host] = on
		return
	}
	c.InfoROM.SetMIG(on)
}

// modeWord is the mode as nvidia-smi prints it.
func (c Card) modeWord(on bool) string {
	switch {
	case c.profiles() == nil:
		return "[N/A]"
	case on:
		return "Enabled"
	}
	return "Disabled"
}

// withInstances fills in how cards are divided.
func withInstances(s *machine.System, cards []Card) []Card {
	out := slices.Clone(cards)
	for i := range out {
		out[i].mig, out[i].pending = migMode(s, out[i])
		out[i].instances = instancesOf(s, out[i])
	}
	return out
}

func instancesOf(s *machine.System, c Card) []instance {
	p := machine.StateOf[partitions](s)
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all[c.Host])
}

func setInstances(s *machine.System, c Card, all []instance) {
	slices.SortFunc(all, func(a, b instance) int { return a.number - b.number })
	p := machine.StateOf[partitions](s)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string][]instance{}
	}
	p.all[c.Host] = all
}

// usable are the instances that programs can use.
func (c Card) usable() []instance {
	return slices.DeleteFunc(slices.Clone(c.instances), func(i instance) bool { return !i.ready })
}

// find finds a profile by what -cgi takes: its name or number, and perhaps a place.
func (c Card) find(what string) (p profile, at int, ok bool) {
	name, place, placed := strings.Cut(strings.TrimPrefix(what, "MIG "), ":")
	at = -1
	if placed {
		n, err := strconv.Atoi(place)
		if err != nil {
			return profile{}, 0, false
		}
		at = n
	}
	for _, p := range c.profiles() {
		if p.name == name || strconv.Itoa(p.id) == name {
			return p, at, true
		}
	}
	return profile{}, 0, false
}

// make adds an instance where there is room; false if there is none.
func (c Card) make(all []instance, p profile, at int) (instance, bool) {
	taken := map[int]bool{}
	same, special := 0, false
	for _, i := range all {
		for n := range i.size {
			taken[i.start+n] = true
		}
		if i.name == p.name {
			same++
		}
		special = special || i.special
	}
	if same >= p.most || special && p.special {
		return instance{}, false
	}
	for _, start := range slices.Backward(p.starts) {
		free := at < 0 || at == start
		for n := range p.size {
			free = free && !taken[start+n]
		}
		if free {
			i := instance{profile: p, start: start, number: c.number(p, start)}
			h := fmt.Sprintf("%x", sha256.Sum256([]byte(c.UUID+strconv.Itoa(i.number)+p.name)))
			i.uuid = fmt.Sprintf("MIG-%s-%s-5%s-%s-%s", h[:8], h[8:12], h[13:16], h[16:20], h[20:32])
			return i, true
		}
	}
	return instance{}, false
}

// number is the driver's number of an instance: a tree's, from the whole card down (the guide's
// "Instance Geometry").
func (c Card) number(p profile, start int) int {
	whole := 0
	for _, q := range c.profiles() {
		whole = max(whole, q.size)
	}
	return whole/p.size - 1 + start/p.size
}
