package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

func TestSizesOfDisks(t *testing.T) {
	for size, want := range map[unit.Size]string{unit.TiB: "1T 1024", 3 * unit.GiB: "3G 3", 512 * unit.MiB: "512M 0.5", 528 * unit.KiB: "528K 0.000503540039", 1000: "1000 ", 0: "0 0"} {
		disk, gib, _ := strings.Cut(want, " ")
		assert.Equal(t, disk, wire.DiskSize(size))
		assert.True(t, strings.HasPrefix(wire.FormatGiB(size), gib), wire.FormatGiB(size))
	}
	for text, want := range map[string]unit.Size{"32G": 32 * unit.GiB, "528K": 528 * unit.KiB, "4194304": 4 * unit.MiB, "": 0, "much": 0} {
		assert.Equal(t, want, wire.ParseDiskSize(text), text)
	}
	assert.Equal(t, []int64{0, 1, 1, 2}, []int64{wire.RoundMiB(unit.Size(0)), wire.RoundMiB(unit.Size(1)), wire.RoundMiB(unit.MiB), wire.RoundMiB(unit.MiB + 1)})
}
