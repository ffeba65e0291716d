package platform

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// A problem of the hub's chart is shown where the file says what it is about.
func TestWhereTheHubSaysIt(t *testing.T) {
	h := &spec.Hub{Scratch: &spec.HubScratch{}, Profiles: []spec.HubProfile{{Name: "gpu"}}, Shared: []spec.HubShare{{Name: "data"}}}
	for field, want := range map[string]any{
		"Profiles[gpu].SHM": &h.Profiles[0], "Profiles[cpu].SHM": h, "Shared[data].Path": &h.Shared[0], "Shared[x]": h, "Home.Path": &h.Home, "Scratch.Path": h.Scratch,
		"Database": &h.Database, "Auth.Kind": &h.Auth, "Cull.Idle": &h.Cull, "Quota": &h.Quota, "Hostname": h, "": h,
	} {
		assert.Same(t, want, hubField(h, field), field)
	}
	h.Scratch = nil
	assert.Same(t, h, hubField(h, "Scratch"))
	assert.Nil(t, splitJoined(nil))
	assert.Len(t, splitJoined(fmt.Errorf("x")), 1)
	assert.True(t, slices.Equal([]error{spec.ErrSOPS, spec.ErrInlineSecret}, splitJoined(several{spec.ErrSOPS, spec.ErrInlineSecret})))
}

type several []error

func (several) Error() string { return "" }

func (s several) Unwrap() []error { return s }
