package chart

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/secret"
)

// Release is a wanted Helm release.
type Release struct {
	Name      string // of the release
	Namespace string
	Chart     string         // name of the chart in Repo
	Version   string         // exact, as the chart itself says it
	Repo      string         // https://… of a classic repository, or oci://…; empty: only in a local folder
	Digest    string         // sha256:… that its archive must have, unless a folder has it; empty: not known
	Values    map[string]any // what differs from the chart's defaults; never a secret
	Timeout   time.Duration  // until everything in it is ready; default 10 minutes
	Former    string         // the Application of Argo CD that deployed it before, whose objects are taken over if that is gone
}

// Part is a release together with the objects that it needs: everything that installing
// "cert-manager" means. Parts are values: a caller applies them to a cluster, or writes them
// to a Git repository.
type Part struct {
	Name    string   // unique among parts, e.g. "cert-manager"; also its folder in Git
	Needs   []string // names of parts that must be ready before
	Release *Release // nil: the part consists of objects only

	// NamespaceLabels are set on the release's namespace, which is created if it is missing.
	NamespaceLabels map[string]string

	Secrets []Secret         // created in the cluster first; they never go to Git
	Before  []runtime.Object // applied before the release
	After   []runtime.Object // applied when the release is ready: kinds that it brings, storage classes

	// Keep says that the part holds data, which must outlive it. Removing the part keeps its
	// volumes and definitions of kinds.
	Keep bool
	// Classes are the storage classes that it provides. A class is ready when a test volume
	// was written, read and removed.
	Classes []string
}

// Secret is an object of kind Secret. Existing keys with a generated value are kept: Generate
// only creates missing ones.
type Secret struct {
	Namespace, Name string
	Type            string // empty: Opaque
	Labels          map[string]string
	Data            map[string]secret.Value // given
	Generate        map[string]int          // generated if missing: random bytes, written as hex
	Prefix          string                  // of generated values
}

// Ref names the object.
func (s Secret) Ref() kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: "Secret", Namespace: s.Namespace, Name: s.Name}
}

// Merge merges over into values, which it changes, mapping by mapping; lists and everything
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
