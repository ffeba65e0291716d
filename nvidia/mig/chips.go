package mig

import (
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/nvidia"
)

// Chip is a kind of GPU that can be divided, with the memory that its cards have. Two cards of
// one chip with different memory have different profiles.
type Chip struct {
	Name     string // e.g. "A100 40GB"
	Memory   int    // slices of memory, which instances occupy
	Compute  int    // slices of compute
	Engines  int    // media engines that instances share out; 0: they never run short
	Profiles []Profile

	devices []uint16 // PCI device ids
}

// Profile is a size of instance.
type Profile struct {
	Name    string // as nvidia-smi prints it, e.g. "3g.20gb" or "1g.5gb+me"
	Compute int    // slices of compute
	Memory  int    // slices of memory
	Max     int    // how many fit on one GPU
	Starts  []int  // slices of memory at which an instance may begin

	engines int  // media engines that it takes
	only    bool // it takes the engine of which a GPU has only one
}

// Chips are all that can be divided, as far as NVIDIA's documentation describes their profiles.
//
// Source: MIG User Guide, "Supported MIG Profiles" (610), and for cards that it lacks the
// configurations of NVIDIA/mig-parted (deployments/systemd/config-default.yaml, 2026-08). The
// places are those of `nvidia-smi mig -lgipp` there, and of NVIDIA/go-nvml (pkg/nvml/mock/gpus).
func Chips() []Chip {
	return []Chip{
		sevenths("A100 40GB", [6]string{"5", "10", "10", "20", "20", "40"}, 0x20b0, 0x20b1, 0x20bd, 0x20f1, 0x20f6),
		sevenths("A100 80GB", [6]string{"10", "20", "20", "40", "40", "80"}, 0x20b2, 0x20b5, 0x20b8, 0x20f3, 0x20f5, 0x20fd),
		sevenths("A100 96GB", [6]string{"12", "24", "24", "48", "48", "96"}, 0x20b6),
		a30(),
		sevenths("H100 80GB", [6]string{"10", "20", "20", "40", "40", "80"}, 0x2313, 0x2322, 0x2324, 0x2330, 0x2331, 0x2336),
		sevenths("H100 94GB", [6]string{"12", "24", "24", "47", "47", "94"}, 0x2321, 0x233a),
		sevenths("H100 96GB", [6]string{"12", "24", "24", "48", "48", "96"}, 0x2338, 0x233d, 0x2342),
		sevenths("H20 96GB", [6]string{"12", "24", "24", "48", "48", "96"}, 0x2329),
		sevenths("H200 141GB", [6]string{"18", "35", "35", "71", "71", "141"}, 0x2335, 0x233b),
		sevenths("GH200 144GB", [6]string{"18", "36", "36", "72", "72", "144"}, 0x2348),
		sevenths("B200 180GB", [6]string{"23", "45", "45", "90", "90", "180"}, 0x2901),
		sevenths("GB200 186GB", [6]string{"23", "47", "47", "93", "93", "186"}, 0x2941),
		sevenths("B300 269GB", [6]string{"34", "67", "67", "135", "135", "269"}, 0x3182),
		sevenths("GB300 278GB", [6]string{"35", "70", "70", "139", "139", "278"}, 0x31c2),
		rtxPro6000(),
		rtxPro5000(),
		rtxPro4500(),
	}
}

// ChipOf finds a GPU's chip. A GPU that can be divided but is not found has profiles that NVIDIA
// documents nowhere: only its driver knows them.
func ChipOf(g nvidia.GPU) (Chip, bool) {
	if g.ID.Vendor != nvidia.Vendor {
		return Chip{}, false
	}
	if g.ID.Device == twoSizes && !strings.Contains(g.Name, "5000 Blackwell") { // the other has 72 GB
		return Chip{}, false
	}
	for _, c := range Chips() {
		if slices.Contains(c.devices, g.ID.Device) {
			return c, true
		}
	}
	return Chip{}, false
}

// Profile finds a profile of the chip.
func (c Chip) Profile(name string) (Profile, bool) {
	for _, p := range c.Profiles {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// sevenths is a chip with seven slices of compute and eight of memory, from A100 to GB300. gb
// is the memory in the names of 1g, 1g with twice the memory, 2g, 3g, 4g and 7g.
func sevenths(name string, gb [6]string, devices ...uint16) Chip {
	every := []int{0, 1, 2, 3, 4, 5, 6}
	size := func(compute, memory string) string { return compute + "g." + memory + "gb" }
	return Chip{Name: name, Memory: 8, Compute: 7, devices: devices, Profiles: []Profile{
		{Name: size("1", gb[0]), Compute: 1, Memory: 1, Max: 7, Starts: every},
		{Name: size("1", gb[0]) + "+me", Compute: 1, Memory: 1, Max: 1, Starts: every, only: true},
		{Name: size("1", gb[1]), Compute: 1, Memory: 2, Max: 4, Starts: []int{0, 2, 4, 6}},
		{Name: size("2", gb[2]), Compute: 2, Memory: 2, Max: 3, Starts: []int{0, 2, 4}},
		{Name: size("3", gb[3]), Compute: 3, Memory: 4, Max: 2, Starts: []int{0, 4}},
		{Name: size("4", gb[4]), Compute: 4, Memory: 4, Max: 1, Starts: []int{0}},
		{Name: size("7", gb[5]), Compute: 7, Memory: 8, Max: 1, Starts: []int{0}, only: true},
	}}
}

// a30 has four slices, and one engine for JPEG and one for optical flow.
func a30() Chip {
	return Chip{Name: "A30 24GB", Memory: 4, Compute: 4, devices: []uint16{0x20b7, 0x20b9}, Profiles: []Profile{
		{Name: "1g.6gb", Compute: 1, Memory: 1, Max: 4, Starts: []int{0, 1, 2, 3}},
		{Name: "1g.6gb+me", Compute: 1, Memory: 1, Max: 1, Starts: []int{0, 1, 2, 3}, only: true},
		{Name: "2g.12gb", Compute: 2, Memory: 2, Max: 2, Starts: []int{0, 2}},
		{Name: "2g.12gb+me", Compute: 2, Memory: 2, Max: 1, Starts: []int{0, 2}, only: true},
		{Name: "4g.24gb", Compute: 4, Memory: 4, Max: 1, Starts: []int{0}, only: true},
	}}
}

func rtxPro6000() Chip {
	one, two := []int{0, 1, 2, 3}, []int{0, 2}
	return Chip{Name: "RTX PRO 6000 96GB", Memory: 4, Compute: 4, Engines: 4, devices: []uint16{0x2bb1, 0x2bb4, 0x2bb5}, Profiles: []Profile{
		{Name: "1g.24gb", Compute: 1, Memory: 1, Max: 4, Starts: one, engines: 1},
		{Name: "1g.24gb+me", Compute: 1, Memory: 1, Max: 1, Starts: one, engines: 1, only: true},
		{Name: "1g.24gb+gfx", Compute: 1, Memory: 1, Max: 4, Starts: one, engines: 1},
		{Name: "1g.24gb+me.all", Compute: 1, Memory: 1, Max: 1, Starts: one, engines: 4, only: true},
		{Name: "1g.24gb-me", Compute: 1, Memory: 1, Max: 4, Starts: one},
		{Name: "2g.48gb", Compute: 2, Memory: 2, Max: 2, Starts: two, engines: 2},
		{Name: "2g.48gb+gfx", Compute: 2, Memory: 2, Max: 2, Starts: two, engines: 2},
		{Name: "2g.48gb+me.all", Compute: 2, Memory: 2, Max: 1, Starts: two, engines: 4, only: true},
		{Name: "2g.48gb-me", Compute: 2, Memory: 2, Max: 2, Starts: two},
		{Name: "4g.96gb", Compute: 4, Memory: 4, Max: 1, Starts: []int{0}, engines: 4, only: true},
		{Name: "4g.96gb+gfx", Compute: 4, Memory: 4, Max: 1, Starts: []int{0}, engines: 4, only: true},
	}}
}

// twoSizes is the id of the RTX PRO 5000 with 48 GB and of that with 72 GB, whose profiles are
// not documented.
const twoSizes = 0x2bb3

func rtxPro5000() Chip {
	one := []int{0, 1}
	return Chip{Name: "RTX PRO 5000 48GB", Memory: 2, Compute: 2, Engines: 3, devices: []uint16{twoSizes}, Profiles: []Profile{
		{Name: "1g.24gb", Compute: 1, Memory: 1, Max: 2, Starts: one, engines: 1},
		{Name: "1g.24gb+me", Compute: 1, Memory: 1, Max: 1, Starts: one, engines: 1, only: true},
		{Name: "1g.24gb+gfx", Compute: 1, Memory: 1, Max: 2, Starts: one, engines: 1},
		{Name: "1g.24gb+me.all", Compute: 1, Memory: 1, Max: 1, Starts: one, engines: 3, only: true},
		{Name: "1g.24gb-me", Compute: 1, Memory: 1, Max: 2, Starts: one},
		{Name: "2g.48gb", Compute: 2, Memory: 2, Max: 1, Starts: []int{0}, engines: 3, only: true},
		{Name: "2g.48gb+gfx", Compute: 2, Memory: 2, Max: 1, Starts: []int{0}, engines: 3, only: true},
	}}
}

func rtxPro4500() Chip {
	one := []int{0, 1}
	return Chip{Name: "RTX PRO 4500 32GB", Memory: 2, Compute: 2, Engines: 3, devices: []uint16{0x2c31, 0x2c3a}, Profiles: []Profile{
		{Name: "1g.16gb", Compute: 1, Memory: 1, Max: 2, Starts: one, engines: 1},
		{Name: "1g.16gb+gfx", Compute: 1, Memory: 1, Max: 2, Starts: one, engines: 1},
		{Name: "1g.16gb+me.all", Compute: 1, Memory: 1, Max: 1, Starts: one, engines: 3, only: true},
		{Name: "1g.16gb-me", Compute: 1, Memory: 1, Max: 2, Starts: one},
		{Name: "2g.32gb", Compute: 2, Memory: 2, Max: 1, Starts: []int{0}, engines: 3, only: true},
		{Name: "2g.32gb+gfx", Compute: 2, Memory: 2, Max: 1, Starts: []int{0}, engines: 3, only: true},
	}}
}
