package volumes

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// A node is tried with the volumes that users get there.
func TestKinds(t *testing.T) {
	hub := func(class string) *spec.Hub { return &spec.Hub{Scratch: &spec.HubScratch{Class: class}} }
	own := func(nodes ...string) spec.Storage {
		return spec.Storage{Default: "nfs", Scratch: &spec.Scratch{Class: "scratch", Nodes: nodes}}
	}
	scratch, fast := volume{name: check.Scratch, class: "scratch"}, volume{name: check.Scratch, class: "fast"}
	home := func(class string) volume { return volume{name: check.Home, class: class} }
	for name, tt := range map[string]struct {
		hub     *spec.Hub
		storage spec.Storage
		want    []volume
	}{
		"nothing":                       {},
		"storage of the nodes":          {storage: own("wk1"), want: []volume{scratch}},
		"storage of other nodes":        {storage: own("wk2")},
		"a hub":                         {hub: &spec.Hub{}, want: []volume{home(spec.LocalPath)}},
		"a hub with a default class":    {hub: &spec.Hub{}, storage: spec.Storage{Default: "nfs"}, want: []volume{home("nfs")}},
		"a hub with its own class":      {hub: &spec.Hub{Home: spec.HubHome{Class: "ceph"}}, storage: spec.Storage{Default: "nfs"}, want: []volume{home("ceph")}},
		"a hub on nodes' storage":       {hub: hub("scratch"), storage: own("wk1"), want: []volume{scratch, home("nfs")}},
		"a hub on other nodes' storage": {hub: hub("scratch"), storage: own("wk2"), want: []volume{home("nfs")}},
		"a hub on another class":        {hub: hub("fast"), storage: own("wk2"), want: []volume{fast, home("nfs")}},
		"only a hub's scratch":          {hub: hub("fast"), want: []volume{fast, home(spec.LocalPath)}},
	} {
		c := Config{Node: "wk1", Spec: &spec.Spec{Platform: spec.Platform{Hub: tt.hub, Storage: tt.storage}}}
		assert.Equal(t, tt.want, c.kinds(), name)
		assert.Equal(t, len(tt.want) > 0, c.Any(), name)
	}
	claim := Config{Spec: &spec.Spec{Platform: spec.Platform{Hub: &spec.Hub{Home: spec.HubHome{Claim: "homes"}}}}}
	assert.Contains(t, claim.kinds()[0].skip, "homes, which has users' data")
}
