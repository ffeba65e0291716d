package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

func TestStartTimeout(t *testing.T) {
	for _, tt := range []struct {
		memory        unit.Size
		devices, nics int
		hugepages     bool
		want          time.Duration
	}{
		{4 * unit.GiB, 0, 1, false, 35 * time.Second},
		{30 * unit.GiB, 0, 0, false, 30 * time.Second},
		{31*unit.GiB - 1, 0, 0, false, 31 * time.Second},
		{128 * unit.GiB, 0, 1, false, 133 * time.Second},
		{128 * unit.GiB, 2, 1, false, 517 * time.Second},
		{16 * unit.GiB, 1, 1, false, 125 * time.Second},
		{16 * unit.GiB, 0, 2, true, 160 * time.Second},
	} {
		assert.Equal(t, tt.want, StartTimeout(tt.memory, tt.devices, tt.nics, tt.hugepages))
	}
}
