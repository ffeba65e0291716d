package proxmox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestStartTimeout(t *testing.T) {
	for _, tt := range []struct {
		memory        Size
		devices, nics int
		hugepages     bool
		want          time.Duration
	}{
		{4 * GiB, 0, 1, false, 35 * time.Second},
		{30 * GiB, 0, 0, false, 30 * time.Second},
		{31*GiB - 1, 0, 0, false, 31 * time.Second},
		{128 * GiB, 0, 1, false, 133 * time.Second},
		{128 * GiB, 2, 1, false, 517 * time.Second},
		{16 * GiB, 1, 1, false, 125 * time.Second},
		{16 * GiB, 0, 2, true, 160 * time.Second},
	} {
		assert.Equal(t, tt.want, StartTimeout(tt.memory, tt.devices, tt.nics, tt.hugepages))
	}
}
