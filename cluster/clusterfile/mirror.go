package clusterfile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
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
	r.registryLogin(m, "the mirror", &m.Username, &m.Password, &m.CAFile)
	for i, name := range m.Images {
		if !decode.Matches(imageName, name) {
			r.Wrong(&m.Images[i], fmt.Sprintf("%q is not an image", name), "write registry/path:tag, e.g. docker.io/rancher/fleet:v0.16.2")
		}
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
	m.Folder = r.Path(m.Folder)
	if k.AirgapDir == "" {
		k.AirgapDir = m.K3s()
	}
	if charts.Folder == "" {
		charts.Folder, charts.Offline = m.Charts(), true
	}
}

// existing is Existing for a folder of the file's own; those of mirror exist after images:mirror, which a run asks for.
func (r mirrorSection) existing(at *string) {
	if !r.spec.Mirror.Fills(*at) {
		*at = r.Existing(at, *at, true)
	}
}

// registry adds the mirror to the registries, which are checked.
func (r mirrorSection) registry() {
	m, k := r.spec.Mirror, &r.spec.K3s
	if m == nil {
		return
	}
	for i := range k.Registries {
		// A login alone makes it a registry that K3s asks itself (getHostConfigs, pkg/agent/containerd/config.go). Of the
		// mirror's own host it is that of the mirror.
		if own := &k.Registries[i]; own.Name != "*" && own.Name != m.Host() && len(own.Endpoints) == 0 {
			r.Warn(own, fmt.Sprintf("nodes ask %s itself for its images, not the mirror, because k3s.registries has it", own.Name),
				"remove it, or write endpoints: ["+m.Registry+"]; leave it if your nodes reach it")
		}
	}
	if slices.ContainsFunc(k.Registries, func(r spec.Registry) bool { return r.Name == "*" }) {
		return
	}
	k.Registries = append(slices.Clip(k.Registries), spec.Registry{Name: "*", Endpoints: []string{m.Registry},
		Username: m.Username, Password: m.Password, CAFile: m.CAFile, Insecure: m.Insecure})
}
