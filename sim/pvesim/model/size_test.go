package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func FuzzSize(f *testing.F) {
	for _, s := range []string{"16GiB", "1.5TiB", "0", "-1", "1e400GiB", "12"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s Size
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		require.GreaterOrEqual(t, int64(s), int64(0))
		var again Size
		require.NoError(t, again.UnmarshalText([]byte(s.String())))
		assert.Equal(t, s, again)
	})
}
