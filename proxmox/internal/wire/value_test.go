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
	var n wire.Int
	var v wire.Bool
	assert.EqualError(t, n.UnmarshalJSON([]byte(`"cat"`)), `"cat" is not a number`)
	assert.EqualError(t, v.UnmarshalJSON([]byte(`"cat"`)), `"cat" is not a switch`)
}
