package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
)

// Of what lies about, templates are named when all goes, and files for whom asked for nothing else.
func TestWhatLiesAbout(t *testing.T) {
	all := []templates.Leftover{{
		Host: "pve1", Volumes: []proxmox.Volume{{ID: "local:iso/homelab_a_b_c.iso"}}, Mappings: []string{"a_b"},
		Templates: []proxmox.Summary{{Name: "a-template-pve1-x"}},
	}}
	names := func(costs []converge.Cost) (out []string) {
		for _, c := range costs {
			assert.Equal(t, converge.CostDestroy, c.Kind)
			out = append(out, c.Machine)
		}
		return out
	}
	assert.Equal(t, []string{"a-template-pve1-x"}, names(costsOfRests(t.Context(), all, nil)))
	assert.Equal(t, []string{"homelab_a_b_c.iso"}, names(costsOfFiles(t.Context(), all, nil)))
	assert.Empty(t, costsOfRests(t.Context(), []templates.Leftover{{Host: "pve2"}}, nil))
}
