package unit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

func Example() {
	size, _ := unit.ParseSize("1.5TB")
	at, _ := unit.ParsePCIAddress("C1:00")
	fmt.Println(size, unit.Size(25276502016).Approximate(), at, at.First())
	// Output: 1536GiB 23.5GiB 0000:c1:00 0000:c1:00.0
}

func TestSize(t *testing.T) {
	for in, want := range map[string]string{
		"16GiB": "16GiB", "16G": "16GiB", "16GB": "16GiB", "512MiB": "512MiB", "1024M": "1GiB", "1TB": "1TiB", "1.5TiB": "1536GiB",
		"0.5G": "512MiB", "16 GiB": "16GiB", "1536GiB": "1536GiB", "1KiB": "1KiB", "0G": "0B", "1.001K": "1025B", "1025B": "1025B", "0B": "0B", "9223372036854775807B": "9223372036854775807B", "8388606T": "8388606TiB",
	} {
		got, err := unit.ParseSize(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got.String(), in)
	}
	for _, in := range []string{"", "16", "-1G", "G", "16g", "16gib", "1.2345G", "1e3G", "16 GiB ", "16PiB", "9999999999999999999G", "8388607T", "١G", "9223372036854775808B"} {
		_, err := unit.ParseSize(in)
		assert.ErrorContains(t, err, "size", in)
	}
	assert.Equal(t, int64(16384), (16 * unit.GiB).MiB())
	for size, want := range map[unit.Size]int64{0: 0, 1: 1, unit.GiB - 1: 1, unit.GiB: 1, unit.GiB + 1: 2, 2*unit.GiB - 1: 2, 2 * unit.GiB: 2, 16 * unit.GiB: 16} {
		assert.Equal(t, want, size.GiB(), "a disk is never smaller than asked for, nor larger by a whole GiB: %d", size)
	}
	for unit, want := range map[unit.Size]int64{unit.KiB: 1 << 10, unit.MiB: 1 << 20, unit.GiB: 1 << 30, unit.TiB: 1 << 40} {
		assert.EqualValues(t, want, unit)
	}
}

func TestSizesInText(t *testing.T) {
	for size, want := range map[unit.Size]string{
		25276502016: "23.5GiB", 24 * unit.GiB: "24GiB", 150*unit.GiB + 1: "150GiB", 100*unit.GiB + 600*unit.MiB: "101GiB", 99*unit.GiB + 512*unit.MiB: "99.5GiB",
		unit.TiB: "1TiB", unit.TiB + 1: "1TiB", unit.GiB: "1GiB", unit.MiB: "1MiB", unit.MiB - 1: "1048575B", 1536 * unit.KiB: "1.5MiB", 512 * unit.KiB: "512KiB", 3: "3B",
	} {
		assert.Equal(t, want, size.Approximate())
	}
	assert.Equal(t, "1024TiB", (1024 * unit.TiB).String())
	var out struct{ A unit.Size }
	require.NoError(t, json.Unmarshal([]byte(`{"A":" 3 GB "}`), &out))
	assert.Equal(t, 3*unit.GiB, out.A)
	text, err := json.Marshal(out)
	require.NoError(t, err)
	assert.JSONEq(t, `{"A":"3GiB"}`, string(text))
	require.Error(t, json.Unmarshal([]byte(`{"A":"3 cats"}`), &out))
	assert.Equal(t, "3GiB", (3 * unit.GiB).GoString())
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"16GiB", "1.5T", "0.001K", "9223372036854775807K", "16", "528K", "9223372036854775807B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := unit.ParseSize(s)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, v, unit.Size(0))
		again, err := unit.ParseSize(v.String())
		require.NoError(t, err)
		assert.Equal(t, v, again)
	})
}

func TestPCIAddress(t *testing.T) {
	for in, want := range map[string]string{
		"01:00": "0000:01:00", "01:00.0": "0000:01:00.0", "0000:01:00": "0000:01:00", "0000:C1:00.1": "0000:c1:00.1", "E1:1F.7": "0000:e1:1f.7",
		"1:0": "0000:01:00", " 41:00.* ": "0000:41:00", "00000000:41:00.0": "0000:41:00.0", "00000001:41:00.0": "0001:41:00.0", "00010000:01:00.0": "10000:01:00.0",
		"000000000:01:00.0": "", "01:20": "", "01:20.0": "", "01:00.8": "", "01": "", "": "", "01-00": "", "01.00": "", "zz:00.0": "", "0000:01:00.00": "", "0000:01:00.0;0000:02:00.0": "",
	} {
		got, err := unit.ParsePCIAddress(in)
		if want == "" {
			assert.ErrorContains(t, err, "is not a PCI address", in)
			continue
		}
		require.NoError(t, err, in)
		assert.Equal(t, want, got.String())
	}
	whole, first := unit.PCIAddress{Bus: 1, Function: -1}, unit.PCIAddress{Bus: 1}
	assert.Equal(t, whole, first.Whole())
	assert.Equal(t, first, whole.First())
	assert.True(t, whole.Contains(first))
	assert.False(t, first.Contains(whole))
	assert.Negative(t, whole.Compare(first))
	require.Error(t, new(unit.PCIAddress).UnmarshalText([]byte("x")))
}

func FuzzPCIAddress(f *testing.F) {
	for _, s := range []string{"01:00", "0000:C1:00.0", "1:0.7", "ffff:ff:1f", "41:00.*", "::", "ffffffff:ff:1f.7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := unit.ParsePCIAddress(s)
		if err != nil {
			return
		}
		text, err := a.MarshalText()
		require.NoError(t, err)
		var again unit.PCIAddress
		require.NoError(t, again.UnmarshalText(text))
		assert.Equal(t, a, again)
		assert.Equal(t, strings.ToLower(a.String()), a.String(), "Proxmox refuses upper case")
	})
}
