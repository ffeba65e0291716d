package nvidia

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ids(t testing.TB, texts ...string) []PCIID {
	t.Helper()
	out := make([]PCIID, len(texts))
	for i, s := range texts {
		id, err := ParsePCIID(s)
		require.NoError(t, err)
		out[i] = id
	}
	return out
}

const (
	a100    = "10de:20f1"
	h200    = "10de:2335"
	gh200   = "10de:2342"
	v100    = "10de:1db4"
	k80     = "10de:102d"
	rtx5090 = "10de:2b85"
	future  = "10de:3fff"
)

func TestSelectDriverBranch(t *testing.T) {
	for name, tc := range map[string]struct {
		gpus   []string
		policy Policy
		want   string
		reason string
	}{
		"default":                   {[]string{a100, a100}, Policy{}, "580-server-open", "580-server-open: NVIDIA's long-term support branch, until June 2028; for NVIDIA A100-PCIE-40GB (Ampere)"},
		"old chip":                  {[]string{v100}, Policy{}, "580-server", "580-server: NVIDIA's long-term support branch, until June 2028; branch 580 is the last for NVIDIA Tesla V100 PCIe 16GB (Volta), and it does not work with the open kernel modules; for NVIDIA Tesla V100 PCIe 16GB (Volta)"},
		"new chip":                  {[]string{rtx5090}, Policy{}, "580-server-open", "580-server-open: NVIDIA's long-term support branch, until June 2028; NVIDIA GeForce RTX 5090 (Blackwell) works only with the open kernel modules; for NVIDIA GeForce RTX 5090 (Blackwell)"},
		"mixed, old and supported":  {[]string{v100, a100}, Policy{}, "580-server", ""},
		"unknown":                   {[]string{future}, Policy{}, "580-server-open", "580-server-open: NVIDIA's long-term support branch, until June 2028; WARNING: not in our table of 2026-11, perhaps too new for this branch: 10de:3fff"},
		"pinned":                    {[]string{a100}, Policy{Branch: "595"}, "595-server-open", "595-server-open: pinned, supported until March 2027; for NVIDIA A100-PCIE-40GB (Ampere)"},
		"pinned series":             {[]string{a100}, Policy{Branch: "595-server-open"}, "595-server-open", ""},
		"pinned branch and flavour": {[]string{a100}, Policy{Branch: "580-server", Flavour: Proprietary}, "580-server", ""},
		"flavour":                   {[]string{a100}, Policy{Flavour: Proprietary}, "580-server", "580-server: flavour pinned, supported until June 2028; for NVIDIA A100-PCIE-40GB (Ampere)"},
		"installed stays":           {[]string{a100}, Policy{Installed: "595-server-open"}, "595-server-open", "595-server-open: installed, kept; for NVIDIA A100-PCIE-40GB (Ampere)"},
		"installed, ended, stays":   {[]string{a100}, Policy{Installed: "535-server"}, "535-server", "535-server: installed, kept; NVIDIA's support for it ended in June 2026: pin 580 to replace it; for NVIDIA A100-PCIE-40GB (Ampere)"},
		"pin replaces installed":    {[]string{a100}, Policy{Installed: "535-server", Branch: "580"}, "580-server-open", ""},
		"flavour keeps the branch":  {[]string{a100}, Policy{Installed: "595-server-open", Flavour: Proprietary}, "595-server", ""},
		"pinned as installed":       {[]string{a100}, Policy{Installed: "570-server-open", Branch: "570"}, "570-server-open", "570-server-open: pinned, and installed; NVIDIA's support for it ended in February 2026: pin 580 to replace it; for NVIDIA A100-PCIE-40GB (Ampere)"},
	} {
		t.Run(name, func(t *testing.T) {
			d, reason, err := SelectDriverBranch(ids(t, tc.gpus...), tc.policy)
			require.NoError(t, err)
			assert.Equal(t, tc.want, d.String())
			if tc.reason != "" {
				assert.Equal(t, tc.reason, reason)
			}
		})
	}
}

func TestSelectDriverBranchRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		gpus   []string
		policy Policy
		want   string
	}{
		"too new for the chip":      {[]string{v100}, Policy{Branch: "595"}, "NVIDIA driver 595-server does not fit: branch 580 is the last for NVIDIA Tesla V100 PCIe 16GB (Volta): write 580-server, or leave branch and flavour out"},
		"too old for the chip":      {[]string{rtx5090}, Policy{Branch: "535"}, "NVIDIA driver 535-server-open does not fit: NVIDIA GeForce RTX 5090 (Blackwell) is supported from branch 570 on: write 580-server-open, or leave branch and flavour out"},
		"open on an old chip":       {[]string{v100}, Policy{Branch: "580-server-open"}, "does not work with the open kernel modules: write 580-server"},
		"proprietary on a new chip": {[]string{rtx5090}, Policy{Flavour: Proprietary}, "works only with the open kernel modules: write 580-server-open"},
		"proprietary on GH200":      {[]string{gh200}, Policy{Flavour: Proprietary}, "NVIDIA GH200 120GB (Hopper) works only with the open kernel modules"},
		"ended":                     {[]string{a100}, Policy{Branch: "535"}, "NVIDIA driver 535-server-open does not fit: NVIDIA's support for it ended in June 2026: write 580-server-open"},
		"not packaged":              {[]string{a100}, Policy{Branch: "620"}, "Ubuntu 24.04 has no series of that branch; supported are 580 or 595"},
		"never heard of":            {[]string{a100}, Policy{Branch: "999"}, "has no series of that branch"},
		"no proprietary any more":   {[]string{a100}, Policy{Branch: "620", Flavour: Proprietary}, "from branch 615 on there are only open kernel modules"},
		"mixed beyond help":         {[]string{v100, rtx5090}, Policy{}, "works only with the open kernel modules, NVIDIA Tesla V100 PCIe 16GB (Volta) only with the proprietary ones: give a machine cards of one kind: gpus: {model: …} or {pci: […]}"},
		"no branch left":            {[]string{k80}, Policy{}, "branch 470 is the last for"},
		"installed does not fit":    {[]string{rtx5090}, Policy{Installed: "580-server"}, "it is installed and is not replaced by itself: pin 580-server-open to replace it"},
		"desktop series":            {[]string{a100}, Policy{Branch: "580-open"}, "that is the desktop series, which conflicts with the server one: write 580-server-open"},
		"nonsense":                  {[]string{a100}, Policy{Branch: "latest"}, "NVIDIA driver latest does not fit: that is not a branch: write 580"},
		"unknown flavour":           {[]string{a100}, Policy{Flavour: "free"}, "write open or proprietary"},
		"two flavours":              {[]string{a100}, Policy{Branch: "580-server-open", Flavour: Proprietary}, "write one of the two"},
		"not NVIDIA's":              {[]string{"1002:20f1"}, Policy{}, "PCI device 1002:20f1 is not NVIDIA's"},
		"nothing":                   {nil, Policy{}, "there is no GPU to choose one for"},
		"installed is desktop":      {[]string{a100}, Policy{Installed: "580"}, "want a server series"},
		"and it is to be long-term": {[]string{a100}, Policy{Branch: LTS, Installed: "580"}, "want a server series"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := SelectDriverBranch(ids(t, tc.gpus...), tc.policy)
			assert.ErrorContains(t, err, tc.want)
		})
	}
	_, _, err := SelectDriverBranch(ids(t, v100), Policy{Branch: "595"})
	for _, gpus := range [][]PCIID{nil, {{Vendor: 0x8086, Device: 0x56c0}}} {
		var none *BranchError
		_, _, err := SelectDriverBranch(gpus, Policy{})
		require.ErrorAs(t, err, &none, "%v", gpus)
	}
	assert.Equal(t, "none", Driver{}.String())
	var bad *BranchError
	assert.ErrorAs(t, err, &bad)
}

// Every GPU of the table gets a driver that fits it, or (Kepler) a reason.
func TestEveryGPU(t *testing.T) {
	for _, g := range GPUs() {
		d, reason, err := SelectDriverBranch([]PCIID{g.ID}, Policy{})
		if g.Architecture == Kepler {
			assert.ErrorContains(t, err, "470", g)
			continue
		}
		require.NoError(t, err, g)
		assert.Contains(t, reason, g.Name)
		assert.Equal(t, g.Open == OpenUnsupported, d.Flavour == Proprietary, g)
		assert.GreaterOrEqual(t, d.Branch, g.MinBranch, g)
		if g.LastBranch != 0 {
			assert.LessOrEqual(t, d.Branch, g.LastBranch, g)
		}
	}
}

// A choice, made again on a machine on which it is installed, is the same.
func TestChoiceIsStable(t *testing.T) {
	for _, gpus := range [][]string{{a100}, {v100}, {rtx5090}, {h200, a100}, {future}} {
		first, _, err := SelectDriverBranch(ids(t, gpus...), Policy{})
		require.NoError(t, err)
		again, _, err := SelectDriverBranch(ids(t, gpus...), Policy{Installed: first.String()})
		require.NoError(t, err)
		assert.Equal(t, first, again)
	}
}

func FuzzSelectDriverBranch(f *testing.F) {
	f.Add(uint16(0x20f1), uint16(0x1db4), "580", "", "")
	f.Add(uint16(0x2b85), uint16(0x2b85), "", "proprietary", "595-server-open")
	f.Fuzz(func(t *testing.T, a, b uint16, branch, flavour, installed string) {
		gpus := []PCIID{{Vendor: Vendor, Device: a}, {Vendor: Vendor, Device: b}}
		d, reason, err := SelectDriverBranch(gpus, Policy{Branch: branch, Flavour: Flavour(flavour), Installed: installed})
		if err != nil {
			assert.Zero(t, d)
			return
		}
		assert.NotEmpty(t, reason)
		back, err := parseDriver(d.String())
		require.NoError(t, err)
		assert.Equal(t, d, back)
	})
}

// TestRefusesIsTheTable: a driver is refused for a GPU just when its branch is older than
// the GPU's first, newer than its last, or of the flavour that does not work with it; of
// two that need the same, the first is named.
func TestRefusesIsTheTable(t *testing.T) {
	for _, g := range GPUs() {
		var n driverNeed
		n.add(g)
		alike := g
		alike.Name = "another"
		n.add(alike)
		for _, flavour := range []Flavour{Open, Proprietary} {
			for branch := 390; branch < 650; branch++ {
				want := branch < g.MinBranch || g.LastBranch != 0 && branch > g.LastBranch ||
					flavour == Open && g.Open == OpenUnsupported || flavour == Proprietary && (g.Open == OpenRequired || branch >= firstOpenOnly)
				said := n.refusal(Driver{branch, flavour})
				require.Equal(t, want, said != "", "%s, %d %s: %q", g, branch, flavour, said)
				if branch < g.MinBranch {
					require.NotContains(t, said, "another")
				}
			}
		}
	}
}

// Of the branches that nobody asked for, ours is the first that fits and is available, and
// the reason says what kept the default branch away.
func TestBestSaysWhatKeptTheDefaultAway(t *testing.T) {
	young := GPU{Name: "young", MinBranch: 590}
	old := GPU{Name: "old", LastBranch: 570, Open: OpenUnsupported}
	ubuntu := archive{name: "Ubuntu has", branches: []int{535, 580, 595}}
	debian := archive{name: "Debian has", branches: []int{590, 595}, elsewhere: "write image: ubuntu"}
	for name, tc := range map[string]struct {
		gpu  GPU
		from archive
		want string // the reason, or the error
	}{
		"the GPU does":               {young, ubuntu, "595-server-open: NVIDIA's production branch, until March 2027; young is supported from branch 590 on; for young"},
		"the archive does":           {GPU{Name: "any"}, debian, "595-server-open: NVIDIA's production branch, until March 2027; Debian has begins with 590; for any"},
		"nothing does":               {GPU{Name: "any"}, ubuntu, "580-server-open: NVIDIA's long-term support branch, until June 2028; for any"},
		"nothing is left":            {old, ubuntu, "no NVIDIA driver fits: branch 570 is the last for old: remove the GPU from the machine; no supported branch works with it"},
		"nothing is left, elsewhere": {old, debian, "no NVIDIA driver fits: branch 570 is the last for old: remove the GPU from the machine; no supported branch works with it"},
		"only another has it": {GPU{Name: "last", LastBranch: 580}, debian,
			"no NVIDIA driver fits: branch 580 is the last for last, and Debian has begins with 590: write image: ubuntu"},
	} {
		t.Run(name, func(t *testing.T) {
			n := driverNeed{from: tc.from}
			n.add(tc.gpu)
			d, err := n.best()
			if err != nil {
				require.EqualError(t, err, tc.want)
				return
			}
			require.Equal(t, tc.want, n.reason(d))
		})
	}
}

// Of several GPUs the one that is dropped first counts, and the one that was named first
// of those that are dropped together, in whatever order they are.
func TestTheFirstToBeDroppedCounts(t *testing.T) {
	kepler, volta, ampere := GPU{Name: "k", LastBranch: 470}, GPU{Name: "v", LastBranch: 580}, GPU{Name: "a"}
	for _, order := range [][]GPU{{kepler, volta, ampere}, {volta, kepler, ampere}, {ampere, volta, kepler}, {kepler, {Name: "other", LastBranch: 470}, ampere}} {
		var n driverNeed
		for _, g := range order {
			n.add(g)
		}
		require.Equal(t, "branch 470 is the last for k", n.refusal(Driver{471, Open}))
		require.Empty(t, n.refusal(Driver{470, Open}))
	}
	first, err := driverNeedOf(ids(t, future, v100, future))
	require.NoError(t, err)
	require.Len(t, first.gpus, 1, "an unknown GPU does not hide those after it")
	require.Len(t, first.unknown, 2)
}

// A branch has ended if its last month was before the table was read, and then one that has not ended is
// named.
func TestBranchesEndInTheirLastMonth(t *testing.T) {
	read, err := time.Parse("2006-01", LifecycleDate)
	require.NoError(t, err)
	for _, b := range branches() {
		if last, err := time.Parse("January 2006", b.Until); err == nil {
			assert.Equal(t, last.Before(read), b.Ended, b)
		} else if b.Until != "" {
			year, err := time.Parse("2006", b.Until)
			require.NoError(t, err)
			assert.True(t, b.Ended && year.Year() <= read.Year(), b)
		}
		use, known := find(b.Cards)
		assert.Equal(t, b.Ended, known && !use.Ended, b)
	}
}

// Whatever is asked for, the driver is one that fits, and the order of the cards does not matter.
func TestChoicesForPairsOfCards(t *testing.T) {
	cards := []string{a100, h200, gh200, v100, rtx5090, "10de:1b38", "10de:1eb8", future}
	for _, policy := range []Policy{{}, {Branch: LTS}, {Branch: Production}, {Branch: "595"}, {Flavour: Proprietary}, {Flavour: Open, Installed: "580-server"}, {Installed: "595-server-open"},
		{Installed: "570-server"}, {System: "debian-13"}, {System: "debian-13", Build: true}, {System: "debian-13", Build: true, Installed: "580-server"}} {
		for _, a := range cards {
			for _, b := range cards {
				d, why, err := SelectDriverBranch(ids(t, a, b), policy)
				other, _, again := SelectDriverBranch(ids(t, b, a), policy)
				require.Equal(t, d, other, "%s, %s: %+v", a, b, policy)
				require.Equal(t, err == nil, again == nil)
				if err != nil {
					require.Zero(t, d)
					continue
				}
				n, err := driverNeedOf(ids(t, a, b))
				require.NoError(t, err)
				require.Empty(t, n.refusal(d), why)
				branch, known := find(d.Branch)
				require.True(t, known)
				installed, _ := policy.installedDriver()
				require.True(t, d == installed || !branch.Ended && archiveOf(policy).has(d.Branch), "%s: %s", d, why)
				require.True(t, policy.Branch != LTS || branch.Kind == "long-term support", why)
				require.True(t, policy.Branch != Production || branch.Kind == "production", why)
				require.True(t, policy.Flavour == "" || d.Flavour == policy.Flavour, why)
				require.True(t, policy.Branch != "" || policy.Flavour != "" || installed.Branch == 0 || d == installed, "it stays: %s", why)
			}
		}
	}
}

// A word means the newest branch of its kind that fits, unless one of that kind is installed.
func TestTheNewestOfAKind(t *testing.T) {
	for _, tc := range []struct {
		branches  []int
		installed string
		last      int // of the card
		want      string
	}{
		{[]int{580, 620}, "", 0, "620"}, {[]int{580}, "", 0, "580"}, {[]int{580, 620}, "580-server-open", 0, "580"}, {[]int{580, 620}, "620-server-open", 0, "620"},
		{[]int{580, 620}, "595-server-open", 0, "620"}, {[]int{580, 620}, "", 600, "580"}, {[]int{595}, "", 0, "620"},
	} {
		n := driverNeed{from: archive{branches: tc.branches}, last: GPU{LastBranch: tc.last}}
		p, err := n.resolveBranchWord(Policy{Branch: LTS, Installed: tc.installed})
		require.NoError(t, err)
		assert.Equal(t, tc.want, p.Branch, "%+v", tc)
	}
}

func TestEachBranchIsFound(t *testing.T) {
	for _, b := range branches() {
		got, ok := find(b.Number)
		assert.True(t, ok, b.Number)
		assert.Equal(t, b, got)
	}
	got, ok := find(1)
	assert.False(t, ok)
	assert.Equal(t, Branch{Number: 1}, got)
}
