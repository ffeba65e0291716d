package chart

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/secret"
)

// Release is a Helm release as it should be.
type Release struct {
	Name      string // of the release
	Namespace string
	Chart     string         // name of the chart in Repo
	Version   string         // exact, as the chart itself says it
	Repo      string         // https://… of a classic repository, or oci://…; empty: only a local folder has it
	Values    map[string]any // what differs from the chart's own values; never a secret
	Timeout   time.Duration  // until everything in it is ready; default 10 minutes
}

// Part is a release together with what it needs around it: what one installs when
// one says "cert-manager". Parts are values: a caller applies them to a cluster, or
// writes them into a Git repository.
type Part struct {
	Name    string   // unique among parts, e.g. "cert-manager"; also its folder in Git
	Needs   []string // names of parts that must be ready before
	Release *Release // nil: the part consists of objects only

	// NamespaceLabels are set on the release's namespace, which is made where it is not there.
	NamespaceLabels map[string]string

	Secrets []Secret         // made in the cluster before all else; they never go to Git
	Before  []runtime.Object // applied before the release
	After   []runtime.Object // applied when the release is ready: kinds that it brings, storage classes

	// Keep says that what the part holds must outlive it: data. Taking the part away
	// leaves its volumes and definitions of kinds.
	Keep bool
	// Classes are the storage classes that it provides: each is done when a volume of
	// it was written, read and removed.
	Classes []string
}

// Secret is an object of kind Secret. Keys that are there already with a generated
// value are kept: Generate makes what is missing, and nothing else.
type Secret struct {
	Namespace, Name string
	Type            string // empty: Opaque
	Labels          map[string]string
	Data            map[string]secret.Value // given
	Generate        map[string]int          // made by us where missing: random bytes, written as hex
}

// Ref names the object.
func (s Secret) Ref() kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: "Secret", Namespace: s.Namespace, Name: s.Name}
}

// Merge lays over over values, which it changes, mapping by mapping; lists and all
// else are replaced.
func Merge(values, over map[string]any) map[string]any {
	for key, to := range over {
		from, isMap := values[key].(map[string]any)
		if more, also := to.(map[string]any); isMap && also {
			Merge(from, more)
			continue
		}
		values[key] = to
	}
	return values
}
