package nvidia

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/facts"
)

var update = flag.Bool("update", false, "rewrite the embedded table and the golden files")

// TestTable makes the embedded table from the published lists, where they are at hand,
// and compares; that each line of it is a GPU that is found, always.
func TestTable(t *testing.T) {
	text := facts.Load(t, "gpus.tsv", *update, func(full fs.FS) ([]byte, error) {
		raw, err := fs.ReadFile(full, "nvidia-gpus.json")
		if err != nil {
			return nil, err
		}
		return table(raw)
	})
	if *update {
		tsv = string(text)
	}
	require.Equal(t, string(text), tsv)
	assert.Less(t, len(tsv), 60_000)
	for line := range strings.Lines(tsv) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		col := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		id, err := ParsePCIID("10de:" + col[0])
		require.NoError(t, err)
		got, ok := Lookup(id)
		require.True(t, ok, line)
		assert.Equal(t, col[5], got.Name)
		open := OpenSupported
		switch {
		case col[2] == "required" || got.Architecture == Blackwell:
			open = OpenRequired
		case slices.Contains([]Architecture{Kepler, Maxwell, Pascal, Volta}, got.Architecture):
			open = OpenUnsupported
		}
		assert.Equal(t, open, got.Open, line)
	}
}

// table is the table of the published lists.
func table(raw []byte) ([]byte, error) {
	var list struct {
		Generated string
		Sources   map[string]string
		GPUs      []struct {
			ID, Name, Architecture, OpenModules string
			MinBranch, MigMaxInstances          *int
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# As of %s. Sources: %s; %s; %s.\n", list.Generated, list.Sources["openTable"], list.Sources["pciIds"], list.Sources["mig"])
	b.WriteString("# device\tarchitecture\topen modules\tfirst branch\tMIG instances\tname\n")
	for _, g := range list.GPUs {
		open := ""
		if g.OpenModules == "required" && g.Architecture != string(Blackwell) {
			open = g.OpenModules
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\t%s\n", g.ID, g.Architecture, open, optional(g.MinBranch), optional(g.MigMaxInstances), g.Name)
	}
	return b.Bytes(), nil
}

func optional(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func TestLookup(t *testing.T) {
	a100, ok := Lookup(PCIID{Vendor: Vendor, Device: 0x20f1, SubVendor: 0x10de, SubDevice: 0x145f})
	require.True(t, ok)
	assert.Equal(t, "NVIDIA A100-PCIE-40GB (Ampere)", a100.String())
	assert.Equal(t, 7, a100.MIGInstances)
	assert.Equal(t, uint16(0x145f), a100.ID.SubDevice)

	v100, _ := Lookup(PCIID{Vendor: Vendor, Device: 0x1db4})
	assert.Equal(t, OpenUnsupported, v100.Open)
	assert.Equal(t, 580, v100.LastBranch)

	_, ok = Lookup(PCIID{Vendor: 0x1002, Device: 0x20f1})
	assert.False(t, ok, "another vendor's device with the same number")
	_, ok = Lookup(PCIID{Vendor: Vendor, Device: 0xffff})
	assert.False(t, ok)
	assert.Greater(t, len(GPUs()), 500)
}

func TestParsePCIID(t *testing.T) {
	a100 := PCIID{Vendor: 0x10de, Device: 0x20f1}
	card := PCIID{Vendor: 0x10de, Device: 0x20f1, SubVendor: 0x10de, SubDevice: 0x145f}
	for in, want := range map[string]PCIID{
		"10de:20f1":           a100,
		"10DE:20F1":           a100,
		"0x10de:0x20f1":       a100,
		"0x10de 0x20f1":       a100,
		"0x20F110DE":          a100,
		"10de:20f1 10de:145f": card,
		"10de:20f1:10de:145f": card,
	} {
		got, err := ParsePCIID(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "10de", "10de:", "10de:20f", "10de:20f1:10de", "10de:20g1", "a:b:c:d", "zzzzzzzz", "10de:20f1:1:2:3"} {
		_, err := ParsePCIID(in)
		assert.ErrorContains(t, err, "such as 10de:20f1", in)
	}
}

func FuzzParsePCIID(f *testing.F) {
	for _, s := range []string{"10de:20f1", "0x20F110DE", "10de:20f1 10de:145f", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParsePCIID(s)
		if err != nil {
			return
		}
		again, err := ParsePCIID(id.String())
		require.NoError(t, err)
		if id.SubVendor == 0 { // what String leaves out
			id.SubDevice = 0
		}
		assert.Equal(t, id, again)
	})
}

func TestParseTableRefuses(t *testing.T) {
	for _, text := range []string{"20f1\tAmpere", "zz\tAmpere\t\t\t\tx", "20f1\tAmpere\t\tx\t\tx", "20f1\tAmpere\t\t\tx\tx"} {
		_, err := parseTable(text)
		assert.ErrorContains(t, err, "GPU table: line 1", text)
	}
}

// The table is in the devices' order, without a device twice, and each of its rows is
// found by its device.
func TestTableIsInOrder(t *testing.T) {
	gpus := GPUs()
	for i, g := range gpus {
		if i > 0 {
			require.Less(t, gpus[i-1].ID.Device, g.ID.Device)
		}
		found, ok := Lookup(g.ID)
		require.True(t, ok, g)
		require.Equal(t, g, found)
	}
	_, ok := Lookup(PCIID{Vendor: Vendor, Device: 0xffff})
	require.False(t, ok)
}

func TestAnIDIsTextInJSON(t *testing.T) {
	for _, text := range []string{"10de:20f1", "10de:20f1 10de:145f"} {
		id, err := ParsePCIID(text)
		require.NoError(t, err)
		b, err := json.Marshal(id)
		require.NoError(t, err)
		assert.Equal(t, `"`+text+`"`, string(b))
		var again PCIID
		require.NoError(t, json.Unmarshal(b, &again))
		assert.Equal(t, id, again)
	}
	require.Error(t, json.Unmarshal([]byte(`"a100"`), new(PCIID)))
}

// Consumer cards before Maxwell are not in the table one by one, and no supported driver works with
// them: they are told from a card that is newer than the table.
func TestOldCardsAreKnown(t *testing.T) {
	for id, last := range map[string]int{"10de:128b": 470 /* GT 710 */, "10de:0dc4": 470 /* GTS 450 */, "10de:1180": 470 /* GTX 680 */, "10de:1340": 580, "10de:fff0": 0} {
		at, err := ParsePCIID(id)
		require.NoError(t, err)
		g, known := Lookup(at)
		assert.Equal(t, []any{last, last != 0}, []any{g.LastBranch, known}, id)
		assert.Equal(t, last == 470, UnsupportedReason(at) != "", id)
		assert.Equal(t, last != 470, IsModel("", at, ""), id)
	}
	_, _, err := SelectDriverBranch([]PCIID{{Vendor: 0x10de, Device: 0x128b}}, Policy{})
	assert.ErrorContains(t, err, "branch 470 is the last for 10de:128b (Kepler or older)")
}
