package members

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/internal/distribution"
)

func TestNewestSnapshot(t *testing.T) {
	var all []distribution.Snapshot
	for i, name := range []string{"before-b1-1", "homelab-before-v1.36.6-k3s1-b1-15.zip", "homelab-before-v1.36.6-k3s1-b1-11", "homelab-before-v1.36.6-k3s10-b1-19"} {
		all = append(all, distribution.Snapshot{Name: name, Created: time.Unix([]int64{10, 15, 11, 19}[i], 0)})
	}
	name, at := newest(all, snapshotPrefix("v1.36.6+k3s1"))
	assert.Equal(t, "homelab-before-v1.36.6-k3s1-b1-15.zip", name)
	assert.Equal(t, int64(15), at.Unix())
	name, _ = newest(all, snapshotPrefix("v1.36.7+k3s1"))
	assert.Empty(t, name)
}

func TestTimesInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m", 0: "0s", 10 * time.Second: "10s", 48 * time.Hour: "48h"} {
		assert.Equal(t, want, durationText(d))
	}
}
