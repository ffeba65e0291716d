package clusterfile

import (
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

// chartsSection completes and checks charts.
type chartsSection struct{ *resolver }

// ownVersions refuses a version that the file has twice: with the part, and in charts.versions.
func (r chartsSection) ownVersions() {
	p := &r.spec.Platform
	own := map[string]*string{}
	if p.Rancher != nil {
		own["rancher"] = &p.Rancher.Version
	}
	if p.Hub != nil {
		own["jupyterhub"] = &p.Hub.Version
	}
	for _, name := range sortedNames(own) {
		if here, there := *own[name], p.Charts.Versions[name]; here != "" && there != "" && there != here {
			r.Wrong(own[name], fmt.Sprintf("this is version %s of %s, and charts.versions says %s", here, name, there), "keep one of them")
		}
	}
}

func (r chartsSection) charts() {
	raw := &r.spec.Platform.Charts
	mirrorSection(r).existing(&raw.Folder)
	if raw.Offline && raw.Folder == "" && !r.spec.IsLab() {
		r.Wrong(&raw.Offline, "no repository may be asked for charts, and no folder has them", "write folder: beside it, with a chart of each part")
	}
	for _, name := range sortedNames(raw.Versions) {
		at := r.MemberAt(&raw.Versions, name)
		r.partName(at, name)
		r.chartVersion(at, name, raw.Versions[name])
	}
	for _, name := range sortedNames(raw.Digests) {
		at := r.MemberAt(&raw.Digests, name)
		r.partName(at, name)
		if !decode.Matches(`^sha256:[0-9a-f]{64}$`, raw.Digests[name]) {
			r.Wrong(at, fmt.Sprintf("%q is not a digest of a chart", raw.Digests[name]), "write sha256: and the 64 digits that sha256sum prints of the archive")
		}
	}
	for _, name := range sortedNames(raw.Values) {
		at := r.MemberAt(&raw.Values, name)
		r.partName(at, name)
		if key := decode.LiteralSecret(raw.Values[name]); key != "" {
			r.Wrong(at, fmt.Sprintf("the values of %s have a secret under %s", name, key), "make a Secret in the cluster, and write the chart's key that names one (existingSecret and the like)")
		}
	}
	ways := []string{spec.ViaDirect, spec.ViaFleet, spec.ViaFlux, spec.ViaArgo}
	for _, name := range sortedNames(raw.Via) {
		at := r.MemberAt(&raw.Via, name)
		r.partName(at, name)
		if via := raw.Via[name]; !slices.Contains(ways, via) {
			r.Wrong(at, fmt.Sprintf("a part cannot be deployed via %q", via), decode.OrSuggest(via, ways))
		}
	}
}

func (r chartsSection) partName(at any, name string) {
	if r.part(name).Name != "" {
		return
	}
	var names []string
	usual := decode.PartHabits[suggest.Normalize(name)]
	for _, p := range r.parts {
		names = append(names, p.Name)
		if suggest.Normalize(p.Chart) == suggest.Normalize(name) {
			usual = p.Name
		}
	}
	slices.Sort(names)
	cure := decode.OrSuggest(name, names)
	if usual != "" {
		cure = fmt.Sprintf("the part is called %q", usual)
	}
	r.Wrong(at, fmt.Sprintf("there is no part %q", name), cure)
}
