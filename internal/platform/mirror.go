package platform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/internal/mirror"
	"github.com/cps-gpu/homelab/kube/chart"
)

// fromMirror has the charts of parts in the registry of the mirror, to which images:mirror copies them: a GitOps tool
// fetches them from inside the cluster.
func fromMirror(s *spec.Spec, parts []chart.Part) ([]chart.Part, error) {
	registry := mirror.ForAll(s)
	if s.Mirror == nil || registry == nil {
		return parts, nil
	}
	place, err := mirror.PlaceOf(*registry)
	if err != nil {
		return nil, err
	}
	parts = slices.Clone(parts)
	for i := range parts {
		if parts[i].Release != nil {
			release := *parts[i].Release
			release.Repo = place.ChartRepository()
			parts[i].Release = &release
		}
	}
	return parts, nil
}

// mirrorOpen refuses parts that a GitOps tool deploys from the charts of a mirror which the tool could not read: only
// nodes know its login and its authority.
func (c checker) mirrorOpen() {
	r := mirror.ForAll(c.spec)
	if c.spec.Mirror == nil || r == nil || !c.Sound() {
		return
	}
	pieces, err := Pieces(c.spec, false)
	if err != nil {
		return // partsRender says it
	}
	var names []string
	for _, p := range pieces {
		if p.Release != nil && p.InGit() {
			names = append(names, p.Name+": direct")
		}
	}
	var closed []string
	for what, is := range map[string]bool{"a login": r.Username != "", "an authority of its own": r.CAFile != "" || r.Insecure, "no TLS": strings.HasPrefix(r.Endpoints[0], "http:")} {
		if is {
			closed = append(closed, what)
		}
	}
	if len(names) == 0 || len(closed) == 0 {
		return
	}
	slices.Sort(closed)
	_, via := c.spec.Platform.GitOps()
	c.Wrong(c.spec.Mirror, fmt.Sprintf("%s would fetch charts from the mirror, which has %s, and homelab does not give it that", fleet.Tool(via).Title(), strings.Join(closed, " and ")),
		"deploy them directly, charts: {via: {"+strings.Join(names, ", ")+"}}, or use a mirror that everybody can read")
}

// outsideMirror warns of what images:mirror does not copy and the file takes from the internet.
func (c checker) outsideMirror() {
	s := c.spec
	if s.Mirror == nil {
		return
	}
	for i := range s.Platform.Models {
		if m := &s.Platform.Models[i]; m.Mirror == "" {
			c.Warn(m, "the weights of "+m.Name+" come from huggingface.co, and the mirror does not have them", "write mirror: there, the URL of a mirror of Hugging Face")
		}
	}
	c.outsideDriver()
}

// outsideDriver warns of NVIDIA's packages that nodes with GPUs get from the internet: the container toolkit unless the
// mirror has a folder, and the driver if it is not in the distribution's archive.
func (c checker) outsideDriver() {
	s := c.spec
	if len(s.DriverNodes()) == 0 || s.Guest.HTTPSProxy != "" || s.Image.Template != "" {
		return
	}
	const proxy = "write guest: {apt: {httpsProxy: URL}} of a proxy that reaches it, or image: {template: NAME} of a template with the "
	if s.Mirror.Folder == "" {
		c.Warn(s.Mirror, "nodes with GPUs get NVIDIA's container toolkit from nvidia.github.io, and the mirror does not have it",
			"write mirror: {folder: FOLDER}, which images:mirror fills; or "+proxy+"toolkit")
	}
	if source := distro.ByName(s.Image.Distribution).Driver(s.NVIDIA.DriverMode == spec.DriverDKMS).Source; source != nil {
		c.Warn(s.Mirror, "nodes with GPUs get NVIDIA's driver from "+source.URL+", and the mirror does not have it", proxy+"driver")
	}
}
