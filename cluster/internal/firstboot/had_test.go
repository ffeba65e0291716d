package firstboot

import (
	"testing"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/stretchr/testify/assert"
)

// The seed of a machine of ours is known as ours when the machine is gone.
func TestSeedsThatMachinesHad(t *testing.T) {
	var had seedsHad
	assert.False(t, had.has("x.iso"))
	had.note(nil)
	had.note(&proxmox.VM{})
	assert.False(t, had.has(""), "a machine without a seed has had none")
	had.note(&proxmox.VM{Seed: "local:iso/x.iso"})
	had.note(&proxmox.VM{Seed: "isos:iso/y.iso"})
	assert.True(t, had.has("x.iso"))
	assert.True(t, had.has("y.iso"))
	assert.False(t, had.has("z.iso"))
}

// A seed is called by what is in it, and by the keys.
func TestContentOfASeed(t *testing.T) {
	for in, want := range map[string]string{"lab_wk1_0123-4567.iso": "0123", "local:iso/a_b_c-d.iso": "c", "debian.iso": "debian.iso"} {
		assert.Equal(t, want, seedContent(in), in)
	}
}
