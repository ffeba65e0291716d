package proxmox

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

func TestFreeSlots(t *testing.T) {
	slot, err := freeSlot(vmWith(map[string]string{"hostpci0": "x", "hostpci2": "y"}))
	require.NoError(t, err)
	assert.Equal(t, "hostpci1", slot)
	full := map[string]string{"name": "a"}
	for i := range 16 {
		full["hostpci"+strconv.Itoa(i)] = "x"
	}
	_, err = freeSlot(vmWith(full))
	assert.EqualError(t, err, "proxmox: a (VM 100 on pve1) has 16 passed-through devices, which is all that it can have")
}

// vmWith is a VM with a configuration, which is off.
func vmWith(config map[string]string) *VM {
	var entries []configEntry
	for k, v := range config {
		entries = append(entries, configEntry{Key: k, Value: (*wire.Text)(&v)})
	}
	return readVM("pve1", 100, entries, false)
}
