package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/proxmox"
)

// A bundle goes when its fleet.yaml does; what else changes in Git is rolled over.
func TestWhatAPushTakesAway(t *testing.T) {
	gone := func(path string) drift.Field { return drift.Field{Path: path, Have: "there", Effect: drift.Remove} }
	costs := costsOfPush(t.Context(), nil, drift.Diff{
		gone("monitoring/fleet.yaml"), gone("monitoring/values.yaml"), gone("nfs/old.yaml"), {Path: "hub/fleet.yaml", Want: "changed"},
	})
	assert.Equal(t, []converge.Cost{{
		Machine: "monitoring", Kind: converge.Destroys, Why: "it is no longer in Git, so Fleet deletes it", Holds: []string{"volumes that its chart does not keep"},
	}}, costs)
}

// Of what lies about, templates are named when all goes, and files for whom asked for nothing else.
func TestWhatLiesAbout(t *testing.T) {
	all := []rest{{
		host: "pve1", volumes: []proxmox.Volume{{ID: "local:iso/homelab_a_b_c.iso"}}, mappings: []string{"a_b"},
		templates: []proxmox.Summary{{Name: "a-template-pve1-x"}},
	}}
	names := func(costs []converge.Cost) (out []string) {
		for _, c := range costs {
			assert.Equal(t, converge.Destroys, c.Kind)
			out = append(out, c.Machine)
		}
		return out
	}
	assert.Equal(t, []string{"a-template-pve1-x"}, names(costsOfRests(t.Context(), all, nil)))
	assert.Equal(t, []string{"homelab_a_b_c.iso"}, names(costsOfFiles(t.Context(), all, nil)))
	assert.Empty(t, costsOfRests(t.Context(), []rest{{host: "pve2"}}, nil))
}
