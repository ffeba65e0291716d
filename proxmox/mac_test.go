package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox"
)

// An address is the same in capitals, and no interface has none.
func TestHasMAC(t *testing.T) {
	nics := []proxmox.NIC{{}, {MAC: "BC:24:11:10:00:01"}}
	assert.True(t, proxmox.HasMAC(nics, "bc:24:11:10:00:01"))
	assert.False(t, proxmox.HasMAC(nics, "bc:24:11:10:00:02"))
	assert.False(t, proxmox.HasMAC(nics, ""))
	assert.False(t, proxmox.HasMAC(nil, "bc:24:11:10:00:01"))
}
