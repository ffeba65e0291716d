package models

import (
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// gateway checks the gateway of models and its keys.
func (r section) gateway() {
	p := &r.spec.Platform
	g := p.ModelGateway
	if g == nil {
		return
	}
	var names []string
	for _, m := range p.Models {
		names = append(names, m.Name)
	}
	if len(names) == 0 {
		r.Wrong(g, "there are no models, so nothing is behind modelGateway", "write models, or remove modelGateway")
	}
	if g.Size < spec.GiB {
		r.Wrong(&g.Size, fmt.Sprintf("%s is too little for a database", g.Size), "write 10GiB or more")
	}
	if scratch := p.Storage.Scratch; scratch != nil && g.StorageClass == scratch.Class {
		r.Wrong(&g.StorageClass, "the keys would be on scratch disks, whose contents may be lost", "write a class with permanent volumes")
	}
	if p.Postgres != nil {
		for i := range p.Postgres.Databases {
			if d := &p.Postgres.Databases[i]; d.Namespace == spec.ModelsNamespace {
				r.Wrong(&d.Namespace, fmt.Sprintf("%s has the gateway's own database", spec.ModelsNamespace), "write another namespace")
			}
		}
	}
	for i := range g.Keys {
		k := &g.Keys[i]
		if k.Name == spec.NotebooksKey || k.Name == spec.ChatKey || !decode.DNSLabel.MatchString(k.Name) {
			r.Wrong(k, fmt.Sprintf("%q cannot be a key's name", k.Name), "write at most 63 lower-case letters, digits and hyphens; "+spec.NotebooksKey+" is the hub's, "+spec.ChatKey+" the chat's")
		}
		for n, name := range k.Models {
			if len(names) > 0 && !slices.Contains(names, name) {
				r.Wrong(&k.Models[n], fmt.Sprintf("there is no model %q", name), decode.OrSuggest(name, names))
			}
		}
		r.CheckRange(&k.Requests, "requestsPerMinute", 1, 1_000_000)
		r.CheckRange(&k.Tokens, "tokensPerMinute", 1, 1_000_000_000)
	}
}
