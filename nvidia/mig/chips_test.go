package mig_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/mig"
)

// geometries are the layouts of profiles without suffix to which nothing can be added: those
// of the diagrams of NVIDIA's MIG User Guide ("Supported MIG Profiles").
func geometries(c mig.Chip) [][]int {
	switch c.Memory {
	case 8:
		return [][]int{{7}, {4, 3}, {4, 2, 1}, {4, 1, 1, 1}, {3, 3}, {3, 2, 2}, {3, 2, 1, 1}, {3, 1, 1, 1, 1},
			{2, 2, 2, 1}, {2, 2, 1, 1, 1}, {2, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}}
	case 4:
		return [][]int{{4}, {2, 2}, {2, 1, 1}, {1, 1, 1, 1}}
	default:
		return [][]int{{2}, {1, 1}}
	}
}

// sized is the chip's first profile of so many slices of compute: the plain one.
func sized(c mig.Chip, compute int) string {
	for _, p := range c.Profiles {
		if p.Compute == compute {
			return p.Name
		}
	}
	return ""
}

func counted(names []string) map[string]int {
	out := map[string]int{}
	for _, n := range names {
		out[n]++
	}
	return out
}

// Every documented geometry fits, and with one instance more of any profile it does not.
func TestGeometries(t *testing.T) {
	for _, c := range mig.Chips() {
		for _, sizes := range geometries(c) {
			var names []string
			for _, size := range sizes {
				names = append(names, sized(c, size))
			}
			layout := counted(names)
			places, err := c.Place(layout)
			if !assert.NoError(t, err, "%s %v", c.Name, layout) {
				continue
			}
			sound(t, c, layout, places)
			for _, p := range c.Profiles {
				more := maps.Clone(layout)
				more[p.Name]++
				_, err := c.Place(more)
				assert.Error(t, err, "%s %v", c.Name, more)
			}
		}
		for _, p := range c.Profiles { // as many as documented, and not one more
			_, err := c.Place(map[string]int{p.Name: p.Max})
			assert.NoError(t, err, "%s %s", c.Name, p.Name)
			_, err = c.Place(map[string]int{p.Name: p.Max + 1})
			assert.ErrorContains(t, err, p.Name)
		}
	}
}

// sound checks that instances are where they may be, none on another, and no more compute is
// given away than there is.
func sound(t testing.TB, c mig.Chip, layout map[string]int, places []mig.Placement) {
	t.Helper()
	taken, compute := map[int]string{}, 0
	var names []string
	for _, at := range places {
		p, known := c.Profile(at.Profile)
		assert.True(t, known)
		assert.Contains(t, p.Starts, at.Start)
		for i := range p.Memory {
			assert.Empty(t, taken[at.Start+i], "%s %v: %v", c.Name, layout, places)
			assert.Less(t, at.Start+i, c.Memory)
			taken[at.Start+i] = p.Name
		}
		compute += p.Compute
		names = append(names, at.Profile)
	}
	assert.LessOrEqual(t, compute, c.Compute, "%s %v", c.Name, layout)
	assert.Equal(t, layout, counted(names))
	assert.True(t, slices.IsSortedFunc(places, func(a, b mig.Placement) int {
		p, _ := c.Profile(a.Profile)
		q, _ := c.Profile(b.Profile)
		return q.Memory - p.Memory
	}), "the largest first: %v", places)
}

// Whatever is placed is placed soundly, and stays possible when an instance is left out.
func TestPlaceAnything(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 6))
	for _, c := range mig.Chips() {
		for range 500 {
			var names []string
			for range 1 + random.IntN(8) {
				names = append(names, c.Profiles[random.IntN(len(c.Profiles))].Name)
			}
			places, err := c.Place(counted(names))
			if err != nil {
				assert.NotContains(t, err.Error(), "%!")
				continue
			}
			sound(t, c, counted(names), places)
			if fewer := names[1:]; len(fewer) > 0 {
				_, err := c.Place(counted(fewer))
				assert.NoError(t, err, "%s %v", c.Name, fewer)
			}
		}
	}
}

// Each chip of the table of GPUs that can be divided is described, or known to be missing.
func TestEveryDivisibleGPU(t *testing.T) {
	var unknown []string
	for _, g := range nvidia.GPUs() {
		c, ok := mig.ChipOf(g)
		switch {
		case g.MIGInstances == 0:
			assert.False(t, ok, "%s", g)
		case !ok:
			unknown = append(unknown, g.Name)
		default:
			assert.Equal(t, g.MIGInstances, c.Profiles[0].Max, "%s", g)
			assert.Equal(t, c.Compute, c.Profiles[0].Max, "%s", g)
		}
	}
	assert.Equal(t, "NVIDIA A100-SXM-64GB, NVIDIA GRID A100A, NVIDIA GRID A100B, NVIDIA A100-PG506-207, NVIDIA A100-PG506-217, "+
		"NVIDIA H20 NVL16, NVIDIA H20 NVL16, NVIDIA H20B, NVIDIA H20-3e, NVIDIA H100 SXM5 64GB, NVIDIA H100, NVIDIA GH100-88K-A1, "+
		"NVIDIA H100 GH3, NVIDIA Skinny Joe, NVIDIA HGX B200 168GB, NVIDIA TS4 / B100, NVIDIA B100, NVIDIA RTX PRO 5000 72GB Blackwell, "+
		"NVIDIA GB300 MaxQ, NVIDIA GB300", strings.Join(unknown, ", "))
}

func a100(t testing.TB) nvidia.GPU {
	t.Helper()
	g, ok := nvidia.Lookup(nvidia.PCIID{Vendor: nvidia.Vendor, Device: 0x20f1})
	require.True(t, ok)
	return g
}

// What is refused says why, and what to write.
func TestFits(t *testing.T) {
	t4, ok := nvidia.Lookup(nvidia.PCIID{Vendor: nvidia.Vendor, Device: 0x1eb8})
	require.True(t, ok)
	pro := nvidia.GPU{ID: nvidia.PCIID{Vendor: nvidia.Vendor, Device: 0x2bb5}, MIGInstances: 4}
	for _, x := range []struct {
		gpu    nvidia.GPU
		layout map[string]int
		want   string
	}{
		{a100(t), map[string]int{"3g.20gb": 2}, ""},
		{a100(t), map[string]int{"1g.5gb": 7}, ""},
		{a100(t), map[string]int{"4g.20gb": 1, "3g.20gb": 1}, ""},
		{a100(t), map[string]int{"1g.5gb+me": 1, "1g.5gb": 6}, ""},
		{a100(t), map[string]int{"3g.40gb": 2}, "A100 40GB: it has no profile 3g.40gb: its profiles are 1g.5gb (at most 7), 1g.5gb+me (at most 1), 1g.10gb (at most 4), " +
			"2g.10gb (at most 3), 3g.20gb (at most 2), 4g.20gb (at most 1), 7g.40gb (at most 1)"},
		{a100(t), map[string]int{"4g.20gb": 2}, "A100 40GB: it holds 1 of 4g.20gb, not 2: write 1 or less"},
		{a100(t), map[string]int{"1g.5gb": 0}, "A100 40GB: 0 of 1g.5gb: write 1 or more, or remove it"},
		{a100(t), map[string]int{"3g.20gb": 2, "1g.5gb": 1}, "A100 40GB: 3g.20gb + 3g.20gb + 1g.5gb take 9 slices of memory and it has 8: remove an instance, or write a smaller one"},
		{a100(t), map[string]int{"2g.10gb": 3, "1g.5gb": 2}, "A100 40GB: 2g.10gb + 2g.10gb + 2g.10gb + 1g.5gb + 1g.5gb take 8 slices of compute and it has 7: remove an instance, or write a smaller one"},
		{a100(t), map[string]int{"4g.20gb": 1, "2g.10gb": 2}, "A100 40GB: 4g.20gb + 2g.10gb + 2g.10gb take 8 slices of compute and it has 7: remove an instance, or write a smaller one"},
		{a100(t), map[string]int{"1g.10gb": 1, "2g.10gb": 3}, ""},
		{a100(t), map[string]int{"1g.10gb": 2, "2g.10gb": 2}, ""},
		{a100(t), map[string]int{"3g.20gb": 1, "1g.10gb": 1, "1g.5gb": 3}, "A100 40GB: 3g.20gb + 1g.10gb + 1g.5gb + 1g.5gb + 1g.5gb take 9 slices of memory and it has 8: remove an instance, or write a smaller one"},
		{pro, map[string]int{"1g.24gb+me.all": 1, "1g.24gb-me": 3}, ""},
		{pro, map[string]int{"1g.24gb+me.all": 1, "1g.24gb": 1}, "RTX PRO 6000 96GB: the instances take 5 media engines and it has 4: write profiles with -me beside those with +me.all"},
		{pro, map[string]int{"1g.24gb+me.all": 1, "1g.24gb+me": 1}, "RTX PRO 6000 96GB: one instance has the GPU's only media engine of its kind, and 1g.24gb+me and 1g.24gb+me.all ask for it: write one with +me, and the others without"},
		{t4, map[string]int{"1g.5gb": 1}, t4.String() + ": this GPU cannot be divided into instances: write strategy: time-slicing or mps with replicas"},
		{nvidia.GPU{Name: "newer", MIGInstances: 7}, map[string]int{"9g.900gb": 1}, ""}, // its driver decides
	} {
		err := mig.CheckFit(x.gpu, x.layout)
		if x.want == "" {
			assert.NoError(t, err, "%v", x.layout)
			continue
		}
		assert.EqualError(t, err, x.want)
	}
	cards := func(ids ...uint16) (out []nvidia.GPU) {
		for _, id := range ids {
			g, _ := nvidia.Lookup(nvidia.PCIID{Vendor: nvidia.Vendor, Device: id})
			out = append(out, g)
		}
		return out
	}
	const t4ID, a100ID, h20ID = 0x1eb8, 0x20f1, 0x2328 // the last is not documented
	for _, x := range []struct {
		cards   []nvidia.GPU
		profile string
		sure    bool
		why     string
	}{
		{cards(t4ID, a100ID), "3g.20gb", true, ""},
		{cards(t4ID, a100ID), "3g.40gb", true, "A100 40GB: it has no profile"},
		{cards(t4ID), "3g.40gb", true, "cannot be divided"},
		{cards(a100ID, h20ID), "3g.40gb", false, "A100 40GB: it has no profile"},
		{cards(h20ID), "3g.40gb", false, ""},
	} {
		sure, err := mig.CheckFitAny(x.cards, map[string]int{x.profile: 1})
		assert.Equal(t, x.sure, sure)
		if x.why == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, x.why)
		}
	}
	sure, err := mig.CheckFitSome(map[string]int{"3g.40gb": 2})
	assert.True(t, sure)
	assert.NoError(t, err)
	sure, err = mig.CheckFitSome(map[string]int{"3g.40gb": 3})
	assert.True(t, sure)
	assert.ErrorContains(t, err, "A100 80GB: it holds 2 of 3g.40gb, not 3")
	sure, err = mig.CheckFitSome(map[string]int{"1g.8gb": 7})
	assert.False(t, sure)
	assert.ErrorContains(t, err, "it has no profile 1g.8gb")
}

// There is a place for whatever has slices enough of memory and of compute, so that a refusal can name those alone.
func TestWhatFitsHasAPlace(t *testing.T) {
	for _, c := range mig.Chips() {
		layout := map[string]int{}
		var each func(i, memory, compute int)
		each = func(i, memory, compute int) {
			if i == len(c.Profiles) {
				if _, err := c.Place(layout); len(layout) > 0 && err != nil {
					assert.Regexp(t, "engine", err.Error(), "%v", layout)
				}
				return
			}
			p := c.Profiles[i]
			each(i+1, memory, compute)
			for n := 1; n <= p.Max && n*p.Memory <= memory && n*p.Compute <= compute; n++ {
				layout[p.Name] = n
				each(i+1, memory-n*p.Memory, compute-n*p.Compute)
			}
			delete(layout, p.Name)
		}
		each(0, c.Memory, c.Compute)
	}
	_, err := mig.Chips()[0].Place(map[string]int{"4g.20gb": 1, "3g.20gb": 2})
	require.EqualError(t, err, "A100 40GB: 3g.20gb + 3g.20gb + 4g.20gb take 12 slices of memory and it has 8: remove an instance, or write a smaller one")
	_, err = mig.Chips()[0].Place(map[string]int{"4g.20gb": 1, "2g.10gb": 2})
	require.EqualError(t, err, "A100 40GB: 4g.20gb + 2g.10gb + 2g.10gb take 8 slices of compute and it has 7: remove an instance, or write a smaller one")
}
