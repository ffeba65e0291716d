package fleetread

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"sigs.k8s.io/yaml"
)

// Raw is the folder of a release's chart whose files are objects, applied as they are
// (helmdeployer/rawyaml/resources.go).
const Raw = "raw-yaml/"

// Release is what a bundle asks Helm for. Everything that Fleet deploys is a release,
// plain manifests too: they travel in a chart that is made for them.
type Release struct {
	Name, Namespace string
	Remote          *Remote           // a chart that is fetched; nil: Files
	Files           map[string][]byte // the chart's files, Chart.yaml among them
	Values          map[string]any
	Options         api.HelmOptions // never with values
	Timeout         time.Duration   // how long Helm waits for what it made; 0: not at all
	TargetNamespace string          // every object is moved there
	KeepDefinitions bool            // definitions of kinds outlive the release
}

// Remote is a chart of a repository.
type Remote struct{ Repo, Chart, Version string }

// Release says what the bundle asks for (bundlereader/style.go, helmdeployer/render/helm.go,
// helmdeployer/install.go). What is not played is an [*Unknown].
func (b Bundle) Release() (Release, error) {
	if err := b.played(); err != nil {
		return Release{}, err
	}
	o := b.Options
	h := api.HelmOptions{}
	if o.Helm != nil {
		h = *o.Helm
	}
	r := Release{
		Name: cmp.Or(h.ReleaseName, releaseName(b.Name)), Namespace: cmp.Or(o.TargetNamespace, o.DefaultNamespace, "default"),
		Options: h, Timeout: time.Duration(max(0, h.TimeoutSeconds)) * time.Second,
		TargetNamespace: o.TargetNamespace, KeepDefinitions: !o.DeleteCRDResources,
	}
	if r.Options.Values = nil; h.Values != nil {
		r.Values = h.Values.Data
	}
	chart := strings.TrimPrefix(path.Join(cmp.Or(h.Chart, h.Repo), "Chart.yaml"), "/")
	switch {
	case b.Files[chart] != nil: // also beside a repository: the folder wins, being the last by name
		r.Files = under(b.Files, path.Dir(chart))
	case strings.HasPrefix(h.Repo, "oci://"):
		r.Remote = &Remote{h.Repo, path.Base(h.Repo), h.Version}
	case h.Repo != "":
		r.Remote = &Remote{h.Repo, h.Chart, h.Version}
	case strings.HasPrefix(h.Chart, "oci://"):
		r.Remote = &Remote{h.Chart, path.Base(h.Chart), h.Version}
	default:
		r.Files = manifests(b)
	}
	return r, nil
}

// under are the files of a folder, by their names from there.
func under(files map[string][]byte, dir string) map[string][]byte {
	out := map[string][]byte{}
	for name, data := range files {
		if dir == "." {
			out[name] = data
		} else if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			out[rest] = data
		}
	}
	return out
}

// manifests make a chart of a folder that is none: YAML and JSON as they are, but
// templates/ a chart's. Folders with options or a chart of their own are left out
// (helmdeployer/render/helm.go, manifests and addChartYAML).
func manifests(b Bundle) map[string][]byte {
	var others []string
	for name := range b.Files {
		base, dir := path.Base(name), path.Dir(name)
		if dir != "." && (base == "fleet.yaml" || base == "fleet.yml" || base == "Chart.yaml") {
			others = append(others, dir+"/")
		}
	}
	out := map[string][]byte{}
	for name, data := range b.Files {
		switch {
		case name == "fleet.yaml", name == "fleet.yml", !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)),
			slices.ContainsFunc(others, func(dir string) bool { return strings.HasPrefix(name, dir) }):
		case strings.HasPrefix(name, "templates/"):
			out[name] = data
		default:
			out[Raw+name] = data
		}
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(b.Files)) {
		fmt.Fprintf(sum, "%s\x00%s\x00", name, b.Files[name])
	}
	out["Chart.yaml"] = fmt.Appendf(nil, "apiVersion: v2\nname: %s\nversion: v0.0.0+s-%s\n", b.Name, hex.EncodeToString(sum.Sum(nil))[:60])
	return out
}

// known are the keys of fleet.yaml that the lab plays, or that change nothing in it:
// it sees no drift, and has one cluster.
func known() []string {
	return []string{"name", "labels", "defaultNamespace", "namespace", "namespaceLabels", "namespaceAnnotations", "dependsOn", "keepResources",
		"deleteCRDResources", "diff", "targetCustomizationMode", "rolloutStrategy",
		"helm.chart", "helm.repo", "helm.version", "helm.releaseName", "helm.timeoutSeconds", "helm.values", "helm.valuesFiles", "helm.force",
		"helm.takeOwnership", "helm.maxHistory", "helm.waitForJobs", "helm.atomic", "helm.disablePreProcess", "helm.skipSchemaValidation",
		"helm.disableDependencyUpdate"}
}

// played refuses what the lab does not play.
func (b Bundle) played() error {
	set := map[string]any{}
	if data, err := json.Marshal(b.Options); err != nil {
		return fmt.Errorf("bundle %s: %w", b.Name, err)
	} else if err := json.Unmarshal(data, &set); err != nil {
		return fmt.Errorf("bundle %s: %w", b.Name, err)
	}
	if helm, ok := set["helm"].(map[string]any); ok {
		delete(set, "helm")
		for key, value := range helm {
			set["helm."+key] = value
		}
	}
	var foreign []string
	for key, value := range set {
		if !slices.Contains(known(), key) && !empty(value) {
			foreign = append(foreign, key)
		}
	}
	if name := "kustomization.yaml"; b.Files[name] != nil { // Fleet knows it by no other (helmdeployer/kustomize/kustomize.go)
		foreign = append(foreign, name)
	}
	if h := b.Options.Helm; h != nil && h.Values != nil {
		foreign = append(foreign, filled(h)...)
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		return &Unknown{Where: "bundle " + b.Name, What: strings.Join(foreign, ", ")}
	}
	return nil
}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case float64:
		return v == 0
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, inner := range v {
			if !empty(inner) {
				return false
			}
		}
		return true
	}
	return false
}

// filled are the values that Fleet would fill in: templates between ${ and }, and what
// begins with global.fleet.clusterLabels. (cmd/controller/target/builder.go,
// processTemplateValues and processLabelValues).
func filled(h *api.HelmOptions) []string {
	data, err := yaml.Marshal(h.Values)
	if err != nil {
		return []string{"helm.values: " + err.Error()}
	}
	var out []string
	if !h.DisablePreProcess && strings.Contains(string(data), "${") {
		out = append(out, "helm.values with ${…}, which is a template")
	}
	if strings.Contains(string(data), "global.fleet.clusterLabels.") {
		out = append(out, "helm.values with labels of the cluster")
	}
	return out
}
