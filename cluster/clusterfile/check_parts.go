package clusterfile

import (
	"errors"
	"reflect"
	"strings"

	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/internal/yamlnode"
	"github.com/cps-gpu/homelab/jupyterhub"
)

// partsRender builds the parts like the recipes do, without their secrets, and reports
// mistakes that only the parts themselves find, at the section of the part.
func (r *resolver) partsRender() {
	if len(r.Problems) > 0 || r.Undecoded() {
		return // otherwise the same mistakes would be reported twice
	}
	_, err := platform.Pieces(r.spec, false)
	for _, err := range apart(err) {
		var hub jupyterhub.Problems
		if !errors.As(err, &hub) {
			what, _, _ := strings.Cut(err.Error(), "\n")
			name, _, _ := strings.Cut(what, ":")
			r.Wrong(r.sectionOr(strings.TrimSpace(name)), what, seeDocs)
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

func (r *resolver) sectionOr(part string) any {
	if platform.IsOn(r.spec, part) {
		return r.section(part)
	}
	return yamlnode.Pos{}
}

// hubField is the place in the file of a field of jupyterhub.Hub, such as Profiles[gpu].SHM or
// Home.Path.
func (r *resolver) hubField(field string) any {
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
