package mirror

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Place has images: all registries (the zero Place), one registry, or a folder.
type Place struct {
	Registry string // host and port
	Project  string // before the names of images there, e.g. "mirror"; empty: none
	Folder   string
}

func (p Place) String() string {
	switch {
	case p.Folder != "":
		return p.Folder
	case p.Project != "":
		return p.Registry + "/" + p.Project
	}
	return p.Registry
}

// ChartRepository is where a registry has the charts that [Copier.Chart] copied to it.
func (p Place) ChartRepository() string { return "oci://" + p.String() + "/" + charts }

// ForAll is the registry from which a file's nodes get the images of all registries, nil if it names none. Its login and
// TLS settings may stand below the name of its host: K3s has them by host (configs of registries.yaml).
func ForAll(s *spec.Spec) *spec.Registry {
	i := slices.IndexFunc(s.K3s.Registries, func(r spec.Registry) bool { return r.Name == "*" && len(r.Endpoints) > 0 })
	if i < 0 {
		return nil
	}
	all := s.K3s.Registries[i]
	at, err := url.Parse(all.Endpoints[0])
	if err != nil || all.Username != "" || all.CAFile != "" || all.Insecure {
		return &all
	}
	for _, own := range s.K3s.Registries {
		if own.Name == at.Host && len(own.Endpoints) == 0 {
			all.Username, all.Password, all.CAFile, all.Insecure = own.Username, own.Password, own.CAFile, own.Insecure
		}
	}
	return &all
}

// PlaceOf is the first endpoint of a registry. K3s takes a path after /v2 as a part of each name.
func PlaceOf(r spec.Registry) (Place, error) {
	u, err := url.Parse(r.Endpoints[0])
	if err != nil {
		return Place{}, err
	}
	path, ok := strings.CutPrefix(strings.Trim(u.Path, "/"), "v2")
	switch {
	case len(r.Rewrite) > 0:
		return Place{}, fmt.Errorf(`k3s.registries."*" has rewrite, and images would have other names: write the path into the endpoint, https://%s/v2/PROJECT`, u.Host)
	case !ok && path != "":
		return Place{}, fmt.Errorf(`k3s.registries."*": the path of %s does not begin with /v2: write https://%s/v2/%s`, r.Endpoints[0], u.Host, path)
	}
	return Place{Registry: u.Host, Project: strings.Trim(path, "/")}, nil
}
