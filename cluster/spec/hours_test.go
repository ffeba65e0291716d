package spec_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
)

func TestHours(t *testing.T) {
	for text, want := range map[string]time.Duration{"08:00-23:00": 15 * time.Hour, "22:30-06:15": 7*time.Hour + 45*time.Minute, "00:00-23:59": 24*time.Hour - time.Minute} {
		h, err := spec.ParseHours(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, h.Length, text)
		back, err := spec.ParseHours(text[6:] + "-" + text[:5])
		require.NoError(t, err)
		assert.Equal(t, 24*time.Hour, h.Length+back.Length, "day and night")
	}
	for _, text := range []string{"", "8:00-23:00", "08:00–23:00", "08:00-24:00", "08:60-23:00", "08:00-08:00", "08:00-23:00 UTC"} {
		_, err := spec.ParseHours(text)
		assert.Error(t, err, text)
	}
}
