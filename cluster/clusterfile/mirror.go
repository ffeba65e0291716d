package clusterfile

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// mirrorSection completes what follows from mirror and is not in the file itself.
type mirrorSection struct{ *resolver }

func (r mirrorSection) mirror() {
	m := r.spec.Mirror
	if m == nil {
		return
	}
	if m.Registry == "" {
		r.Wrong(m, "mirror has no registry", "write registry: https://HOST:PORT, of a registry that has all images")
	}
	r.IsURL(&m.Registry, "https", "http")
	m.CAFile = r.Existing(&m.CAFile, m.CAFile, false)
	if r.IsSet(&m.Username) != r.IsSet(&m.Password) {
		r.Wrong(m, "the login of the mirror is incomplete", "write both username and password")
	}
	k, charts := &r.spec.K3s, &r.spec.Platform.Charts
	const only = "disable-default-registry-endpoint"
	if _, said := k.AgentConfig[only]; !said {
		agent := map[string]any{only: true}
		maps.Copy(agent, k.AgentConfig)
		k.AgentConfig = agent
	}
	if m.Folder == "" {
		return
	}
	if k.AirgapDir == "" {
		k.AirgapDir = filepath.Join(m.Folder, "k3s")
		r.PutAt(&k.AirgapDir, &m.Folder)
	}
	if charts.Folder == "" {
		charts.Folder, charts.Offline = filepath.Join(m.Folder, "charts"), true
		r.PutAt(&charts.Folder, &m.Folder)
	}
}

// registry adds the mirror to the registries, which are checked.
func (r mirrorSection) registry() {
	m, k := r.spec.Mirror, &r.spec.K3s
	if m == nil || slices.ContainsFunc(k.Registries, func(r spec.Registry) bool { return r.Name == "*" }) {
		return
	}
	k.Registries = append(slices.Clip(k.Registries), spec.Registry{Name: "*", Endpoints: []string{m.Registry},
		Username: m.Username, Password: m.Password, CAFile: m.CAFile, Insecure: m.Insecure})
}
