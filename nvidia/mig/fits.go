package mig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/nvidia"
)

// Placement is an instance and its place.
type Placement struct {
	Profile string
	Start   int // its first slice of memory
}

// LayoutError says why profiles do not fit on a GPU.
type LayoutError struct {
	Chip   string // "A100 40GB"
	Reason string
	Do     string
}

// Error is the reason and what to write instead.
func (e *LayoutError) Error() string { return fmt.Sprintf("%s: %s: %s", e.Chip, e.Reason, e.Do) }

// CheckFit says why a GPU cannot be divided into so many instances of each profile, as a
// [*LayoutError]; nil if it can. If the GPU can be divided but its profiles are not documented,
// nothing is refused: its driver decides.
func CheckFit(g nvidia.GPU, profiles map[string]int) error {
	if c, ok := ChipOf(g); ok {
		_, err := c.Place(profiles)
		return err
	}
	if g.MIGInstances > 0 {
		return nil
	}
	do := "write strategy: time-slicing or mps with replicas"
	if what, _ := nvidia.CheckMPS(g.Name, []nvidia.GPU{g}, 2); what != "" {
		do = "write strategy: time-slicing with replicas"
	}
	return &LayoutError{Chip: g.String(), Reason: "this GPU cannot be divided into instances", Do: do}
}

// CheckFitAny is Fits for cards of which one may be in the machine. sure is false if one of them has
// profiles that are not documented, and may fit all the same.
func CheckFitAny(cards []nvidia.GPU, profiles map[string]int) (sure bool, why error) {
	var divisible error
	sure = true
	for _, g := range cards {
		_, documented := ChipOf(g)
		if g.MIGInstances > 0 && !documented {
			sure = false
			continue
		}
		err := CheckFit(g, profiles)
		switch {
		case err == nil:
			return true, nil
		case divisible == nil && documented:
			divisible = err
		case why == nil:
			why = err
		}
	}
	if divisible != nil {
		why = divisible
	}
	return sure, why
}

// CheckFitSome says why no chip can be divided so; nil if one can. The reason is of the chip that has
// most of these profiles; sure is false if none has all of them: perhaps an undocumented one has.
func CheckFitSome(profiles map[string]int) (sure bool, why error) {
	best := -1
	for _, c := range Chips() {
		_, err := c.Place(profiles)
		if err == nil {
			return true, nil
		}
		known := 0
		for name := range profiles {
			if _, ok := c.Profile(name); ok {
				known++
			}
		}
		if known > best {
			why, best = err, known
		}
	}
	return best == len(profiles), why
}

// Place returns where the instances go, the largest first: nvidia-smi does not always find room
// for them when it chooses the places itself (MIG User Guide, "Instance Geometry", example 2).
func (c Chip) Place(profiles map[string]int) ([]Placement, error) {
	var want []Profile
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		p, known := c.Profile(name)
		switch n := profiles[name]; {
		case !known:
			return nil, c.refuse("it has no profile "+name, "its profiles are "+c.list())
		case n < 1:
			return nil, c.refuse(fmt.Sprintf("%d of %s", n, name), "write 1 or more, or remove it")
		case n > p.Max:
			return nil, c.refuse(fmt.Sprintf("it holds %d of %s, not %d", p.Max, name, n), "write "+fmt.Sprint(p.Max)+" or less")
		default:
			want = append(want, slices.Repeat([]Profile{p}, n)...)
		}
	}
	if err := c.engines(want); err != nil {
		return nil, err
	}
	slices.SortStableFunc(want, func(a, b Profile) int { return b.Memory - a.Memory })
	free := make([]bool, c.Memory)
	for i := range free {
		free[i] = true
	}
	if places, ok := place(want, free); ok {
		return places, nil
	}
	return nil, c.noRoomError(want)
}

// engines checks the media engines, which are shared out like memory.
func (c Chip) engines(want []Profile) error {
	taken, only := 0, []string{}
	for _, p := range want {
		taken += p.engines
		if p.only {
			only = append(only, p.Name)
		}
	}
	if len(only) > 1 {
		return c.refuse(fmt.Sprintf("one instance has the GPU's only media engine of its kind, and %s ask for it", strings.Join(only, " and ")),
			"write one with +me, and the others without")
	}
	if c.Engines > 0 && taken > c.Engines {
		return c.refuse(fmt.Sprintf("the instances take %d media engines and it has %d", taken, c.Engines),
			"write profiles with -me beside those with +me.all")
	}
	return nil
}

// noRoomError says why there is no room.
func (c Chip) noRoomError(want []Profile) error {
	memory, compute := 0, 0
	var names []string
	for _, p := range want {
		memory, compute = memory+p.Memory, compute+p.Compute
		names = append(names, p.Name)
	}
	kind, take, has := "compute", compute, c.Compute // there is a place for whatever fits by both
	if memory > c.Memory {
		kind, take, has = "memory", memory, c.Memory
	}
	return c.refuse(fmt.Sprintf("%s take %d slices of %s and it has %d", strings.Join(names, " + "), take, kind, has), "remove an instance, or write a smaller one")
}

func (c Chip) refuse(why, do string) error { return &LayoutError{Chip: c.Name, Reason: why, Do: do} }

// list names the profiles, with how many of each fit.
func (c Chip) list() string {
	out := make([]string, len(c.Profiles))
	for i, p := range c.Profiles {
		out[i] = fmt.Sprintf("%s (at most %d)", p.Name, p.Max)
	}
	return strings.Join(out, ", ")
}

// place finds room for all instances, or none. Equal ones are tried in one order only.
func place(want []Profile, free []bool) ([]Placement, bool) {
	if len(want) == 0 {
		return nil, true
	}
	p := want[0]
	for _, at := range slices.Backward(p.Starts) { // from the end: whatever is small goes where little else may begin
		if slices.Contains(free[at:at+p.Memory], false) {
			continue
		}
		setSlices(free[at:at+p.Memory], false)
		if rest, ok := place(want[1:], free); ok {
			return append([]Placement{{p.Name, at}}, rest...), true
		}
		setSlices(free[at:at+p.Memory], true)
	}
	return nil, false
}

func setSlices(free []bool, with bool) {
	for i := range free {
		free[i] = with
	}
}
