package machine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/talos/internal/machine"
)

// TestCheckUpgrade: any patch, from the two releases before, and back by one; nothing further.
func TestCheckUpgrade(t *testing.T) {
	for from, fine := range map[string]bool{"v1.13.2": true, "v1.13.9": true, "v1.12.4": true, "v1.14.1": true, "v1.9.5": false, "v1.16.0": false, "": false} {
		assert.Equal(t, fine, machine.CheckUpgrade(from, "v1.13.7") == nil, from)
	}
}
