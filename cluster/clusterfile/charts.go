package clusterfile

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube/chart"
)

// chartsSection completes and checks charts, and the parts of the platform with each other.
type chartsSection struct{ *resolver }

// partsRender builds the parts like the recipes do, without their secrets, and reports
// mistakes that only the parts themselves find, at the section of the part.
func (r chartsSection) partsRender() {
	if len(r.Problems) > 0 || r.Undecoded() {
		return // otherwise the same mistakes would be reported twice
	}
	_, err := platform.Pieces(r.spec, false)
	for _, err := range apart(err) {
		var hub jupyterhub.Problems
		if !errors.As(err, &hub) {
			what, _, _ := strings.Cut(err.Error(), "\n")
			name, _, _ := strings.Cut(what, ":")
			r.Wrong(cmp.Or(r.section(strings.TrimSpace(name)), any(yamlnode.Pos{})), what, seeDocs)
			continue
		}
		for _, p := range hub {
			r.Wrong(r.hubField(p.Field), p.Text, seeDocs)
		}
	}
}

const seeDocs = "docs/cluster-yaml.md describes each key"

// apart splits what errors.Join has joined.
func apart(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

// hubField is the place in the file of a field of jupyterhub.Hub, such as Profiles[gpu].SHM or
// Home.Path.
func (r chartsSection) hubField(field string) any {
	h := r.spec.Platform.Hub
	section, _, _ := strings.Cut(field, ".")
	section, in, _ := strings.Cut(strings.TrimSuffix(section, "]"), "[")
	at := map[string]any{
		"Profiles": h.Profile(in), "Shared": h.Share(in), "Home": &h.Home, "Scratch": h.Scratch, "Database": &h.Database,
		"Auth": &h.Auth, "Cull": &h.Cull, "Quota": &h.Quota,
	}[section]
	if at == nil || reflect.ValueOf(at).IsNil() {
		return h
	}
	return at
}

// versionsFit compares the versions of all parts with Kubernetes and each other.
func (r chartsSection) versionsFit() {
	p := r.spec.Platform
	versions := map[string]string{}
	for _, name := range platform.PartsOn(r.spec) {
		versions[name] = p.Charts.Versions[name]
	}
	if p.Rancher != nil && p.Rancher.Version != "" {
		versions["rancher"] = p.Rancher.Version
	}
	if p.Hub != nil && p.Hub.Version != "" {
		versions["jupyterhub"] = p.Hub.Version
	}
	for _, at := range []struct {
		here *string
		name string
	}{{r.rancherVersion(), "rancher"}, {r.hubVersion(), "jupyterhub"}} {
		if there := p.Charts.Versions[at.name]; at.here != nil && *at.here != "" && there != "" && there != *at.here {
			r.Wrong(at.here, fmt.Sprintf("this is version %s of %s, and charts.versions says %s", *at.here, at.name, there), "keep one of them")
		}
	}
	for name, v := range versions {
		if v != "" && !matches(chartVersion, v) {
			delete(versions, name) // said elsewhere
		}
	}
	kubernetes := r.spec.K3s.Version
	if !k3sSyntax.MatchString(kubernetes) {
		kubernetes = "" // said elsewhere
	}
	pins := platform.Pins()
	for _, c := range pins.Check(kubernetes, versions) {
		at := r.versionPlace(c.Parts)
		if c.Warning {
			r.Warn(at, c.Problem, c.Cure)
			continue
		}
		if at == any(&r.spec.K3s.Version) && len(chart.Refused(pins.Check(k3s.DefaultVersion, versions))) == 0 {
			c.Cure += "; write version: " + k3s.DefaultVersion
		}
		r.Wrong(at, c.Problem, c.Cure)
	}
}

func (r chartsSection) rancherVersion() *string {
	if r.spec.Platform.Rancher == nil {
		return nil
	}
	return &r.spec.Platform.Rancher.Version
}

func (r chartsSection) hubVersion() *string {
	if r.spec.Platform.Hub == nil {
		return nil
	}
	return &r.spec.Platform.Hub.Version
}

// versionPlace is the place where a version was chosen: its own key, that of Kubernetes, or
// the section of the part.
func (r chartsSection) versionPlace(parts []string) any {
	for _, name := range parts {
		if r.HasMember(&r.spec.Platform.Charts.Versions, name) {
			return r.MemberAt(&r.spec.Platform.Charts.Versions, name)
		}
	}
	for _, own := range []struct {
		part string
		at   *string
	}{{"rancher", r.rancherVersion()}, {"jupyterhub", r.hubVersion()}} {
		if own.at != nil && r.IsSet(own.at) && slices.Contains(parts, own.part) {
			return own.at
		}
	}
	if r.IsSet(&r.spec.K3s.Version) {
		return &r.spec.K3s.Version
	}
	for _, name := range parts {
		if at := r.section(name); at != nil {
			return at
		}
	}
	return &r.spec.K3s.Version
}

// section is the place in the file that turns a part on; nil: nothing does.
func (r chartsSection) section(part string) any {
	for _, p := range platform.Parts(r.spec) {
		if i := p.Info(); i.Name == part && i.On {
			return decode.At(r.spec, i.Section)
		}
	}
	return nil
}

func (r chartsSection) charts() {
	raw := &r.spec.Platform.Charts
	raw.Folder = r.existing(&raw.Folder, raw.Folder, true)
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
		if !matches(`^sha256:[0-9a-f]{64}$`, raw.Digests[name]) {
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
	for _, name := range sortedNames(raw.Via) {
		at := r.MemberAt(&raw.Via, name)
		r.partName(at, name)
		if via := raw.Via[name]; via != spec.ViaDirect && via != spec.ViaFleet {
			r.Wrong(at, fmt.Sprintf("a part cannot be deployed via %q", via), decode.OrSuggest(via, []string{spec.ViaDirect, spec.ViaFleet}))
		}
	}
}

// partNames are the names of parts with a chart, as in charts.via, charts.versions and
// charts.values.
func partNames() []string { return sortedNames(platform.Pins()) }

func (r chartsSection) partName(at any, name string) {
	pins := platform.Pins()
	if _, ok := pins[name]; ok {
		return
	}
	usual := decode.PartHabits[suggest.Plain(name)]
	for part, pin := range pins {
		if suggest.Plain(pin.Chart) == suggest.Plain(name) {
			usual = part
		}
	}
	cure := decode.OrSuggest(name, partNames())
	if usual != "" {
		cure = fmt.Sprintf("the part is called %q", usual)
	}
	r.Wrong(at, fmt.Sprintf("there is no part %q", name), cure)
}

// replacedValues warns of values that replace ours; those of the hub are checked by their
// meaning (chartValues).
func (r chartsSection) replacedValues() {
	replaced := platform.Replaced(r.spec)
	for _, part := range sortedNames(replaced) {
		r.Warn(r.MemberAt(&r.spec.Platform.Charts.Values, part), fmt.Sprintf("charts.values.%s replaces what the other keys of this file set: %s", part, suggest.Few(replaced[part])),
			"remove it, unless that is what you want")
	}
}
