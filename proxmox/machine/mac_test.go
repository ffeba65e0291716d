package machine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox/machine"
)

// An address is the same in capitals, and no interface has none.
func TestHasMAC(t *testing.T) {
	nics := []machine.NIC{{}, {MAC: "BC:24:11:10:00:01"}}
	assert.True(t, machine.HasMAC(nics, "bc:24:11:10:00:01"))
	assert.False(t, machine.HasMAC(nics, "bc:24:11:10:00:02"))
	assert.False(t, machine.HasMAC(nics, ""))
	assert.False(t, machine.HasMAC(nil, "bc:24:11:10:00:01"))
}
