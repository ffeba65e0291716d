package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox"
)

func TestWhoMayMark(t *testing.T) {
	for _, tt := range []struct {
		name      string
		access    proxmox.TagAccess
		tags      []string
		can, sure bool
	}{
		{"registered", proxmox.TagAccess{Allow: "free", Registered: []string{"homelab-x"}}, nil, false, true},
		{"free", proxmox.TagAccess{Allow: "free"}, nil, true, true},
		{"a list", proxmox.TagAccess{Allow: "list", Allowed: []string{"homelab-x"}}, nil, false, true},
		{"ours is there and not allowed", proxmox.TagAccess{Allowed: []string{"b"}}, []string{"homelab-x", "b"}, false, true},
		{"ours is there and allowed", proxmox.TagAccess{Allowed: []string{"homelab-x"}}, []string{"homelab-x"}, true, false},
		{"no tags at all", proxmox.TagAccess{}, nil, true, false},
		{"others' are allowed", proxmox.TagAccess{Allowed: []string{"b"}}, []string{"a", "b"}, true, false},
		{"others' are not", proxmox.TagAccess{Allowed: []string{"c"}}, []string{"a", "b"}, false, false},
	} {
		can, sure := tt.access.CanMark("Homelab-X", tt.tags)
		assert.Equal(t, []bool{tt.can, tt.sure}, []bool{can, sure}, tt.name)
	}
}
