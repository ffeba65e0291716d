package permission_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox/permission"
)

func TestWhoMayMark(t *testing.T) {
	for _, tt := range []struct {
		name      string
		access    permission.TagAccess
		tags      []string
		can, sure bool
	}{
		{"registered", permission.TagAccess{Allow: "free", Registered: []string{"homelab-x"}}, nil, false, true},
		{"free", permission.TagAccess{Allow: "free"}, nil, true, true},
		{"a list", permission.TagAccess{Allow: "list", Allowed: []string{"homelab-x"}}, nil, false, true},
		{"ours is there and not allowed", permission.TagAccess{Allowed: []string{"b"}}, []string{"homelab-x", "b"}, false, true},
		{"ours is there and allowed", permission.TagAccess{Allowed: []string{"homelab-x"}}, []string{"homelab-x"}, true, false},
		{"no tags at all", permission.TagAccess{}, nil, true, false},
		{"others' are allowed", permission.TagAccess{Allowed: []string{"b"}}, []string{"a", "b"}, true, false},
		{"others' are not", permission.TagAccess{Allowed: []string{"c"}}, []string{"a", "b"}, false, false},
	} {
		can, sure := tt.access.Mark("Homelab-X", tt.tags)
		assert.Equal(t, []bool{tt.can, tt.sure}, []bool{can, sure}, tt.name)
	}
}
