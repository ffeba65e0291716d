package fleet

import "cmp"

// Tool is the program in the cluster that deploys what is in Git.
type Tool string

// The tools that there are. Empty means ToolFleet.
const (
	ToolFleet Tool = "fleet"
	ToolFlux  Tool = "flux"
	ToolArgo  Tool = "argocd"
)

// orDefault is the tool itself, or Fleet.
func (t Tool) orDefault() Tool { return cmp.Or(t, ToolFleet) }

// Title is the tool's name, for people.
func (t Tool) Title() string {
	switch t {
	case ToolFlux:
		return "Flux"
	case ToolArgo:
		return "Argo CD"
	}
	return "Fleet"
}

// BundleFile is the file that makes a directory a bundle: if it goes, Fleet and Flux delete what they
// deployed.
func (t Tool) BundleFile() string { return string(t.orDefault()) + ".yaml" }
