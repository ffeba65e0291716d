package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox"
)

func TestMajorOfAVersion(t *testing.T) {
	for v, major := range map[string]int{"9.2.11": 9, "10.1": 10, "x": 0} {
		assert.Equal(t, major, proxmox.Version{Version: v}.Major())
	}
}
