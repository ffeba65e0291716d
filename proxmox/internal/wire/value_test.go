package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

func TestFlexibleJSON(t *testing.T) {
	for in, want := range map[string]wire.Int{"1": 1, `"2"`: 2, "3.0": 3, "null": 0, `""`: 0, "1e3": 1000} {
		n := wire.Int(7)
		require.NoError(t, n.UnmarshalJSON([]byte(in)))
		assert.Equal(t, want, n, in)
	}
	for in, want := range map[string]wire.Bool{"1": true, `"1"`: true, "true": true, "0": false, `"0"`: false, "false": false, "null": false, `""`: false} {
		v := !want
		require.NoError(t, v.UnmarshalJSON([]byte(in)))
		assert.Equal(t, want, v, in)
	}
	for in, want := range map[string]wire.Text{"null": "", `"a"`: "a", "7": "7"} {
		v := wire.Text("x")
		require.NoError(t, v.UnmarshalJSON([]byte(in)))
		assert.Equal(t, want, v, in)
	}
	assert.Equal(t, []int{5, 5, 7, 7}, []int{wire.Number("5", 7), wire.Number(" 5\n", 7), wire.Number("", 7), wire.Number("5G", 7)})
	assert.Equal(t, []string{"1", "0", "1", "", "1", "", ""},
		[]string{wire.ZeroOne(true), wire.ZeroOne(false), wire.OnOff(true), wire.OnOff(false), wire.Positive(1), wire.Positive(0), wire.Positive(-1)})
	var n wire.Int
	var v wire.Bool
	assert.EqualError(t, n.UnmarshalJSON([]byte(`"cat"`)), `"cat" is not a number`)
	assert.EqualError(t, v.UnmarshalJSON([]byte(`"cat"`)), `"cat" is not a switch`)
}
