package fleetread

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Source is what a GitRepo says about where its bundles are.
type Source struct {
	Name    string   // of the GitRepo
	Paths   []string // its spec.paths
	Bundles []Driven // its spec.bundles; where there are any, Paths is not asked
}

// Driven is an entry of GitRepo.spec.bundles.
type Driven struct{ Base, Options string }

// Bundle is a folder of the repository as Fleet stores it.
type Bundle struct {
	Name   string
	Dir    string // from the root of the repository, "." for the root itself
	Labels map[string]string

	// Options are those of its fleet.yaml. The values of its chart have those of the
	// values files in them.
	Options api.FleetYAML
	// Files are what of the folder is in the bundle, by their names from there. A chart
	// that Fleet fetches is not among them.
	Files map[string][]byte
}

// Unknown is what the lab's Fleet does not play.
type Unknown struct{ Where, What string }

// Error names what is not played, and where it is.
func (e *Unknown) Error() string {
	return fmt.Sprintf("%s: the Fleet of the lab does not play this: %s", e.Where, e.What)
}

// Nothing is the error of folders without any bundle. The job deletes the bundles that it made of them before, and
// fails then (cmd/cli/apply/apply.go, CreateBundles).
type Nothing struct{ Paths []string }

func (e *Nothing) Error() string {
	return fmt.Sprintf("no resource found at the following paths to deploy: %v", e.Paths)
}

// Read reads a repository. One bundle that Fleet refuses is enough that it makes none
// (cmd/cli/apply/apply.go, CreateBundles); the error names all of them. A folder that
// has nothing to deploy is not a bundle, and no bundle at all is an error.
func Read(repo fs.FS, s Source) ([]Bundle, error) {
	places, err := scanned(repo, s.Paths)
	if len(s.Bundles) > 0 {
		places, err = driven(s.Bundles)
	}
	if err != nil {
		return nil, err
	}
	var out []Bundle
	var wrong []error
	of := map[string]string{}
	for _, p := range places {
		b, err := read(repo, s.Name, p)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", p.dir, err))
			continue
		}
		if len(b.Files) == 0 && !fetches(repo, b) {
			continue
		}
		if other, twice := of[b.Name]; twice {
			wrong = append(wrong, &Unknown{p.dir, "a second bundle " + b.Name + ", beside that of " + other + ": which one wins is chance"})
		}
		of[b.Name] = p.dir
		out = append(out, *b)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	if len(out) == 0 {
		return nil, &Nothing{s.Paths}
	}
	return out, nil
}

// read makes a bundle of a folder (bundlereader/read.go, NewBundle and bundleFromDir).
func read(repo fs.FS, gitRepo string, p place) (*Bundle, error) {
	data, err := p.options(repo)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Name: bundleName(gitRepo, p), Dir: p.dir}
	if err := yaml.Unmarshal(data, &b.Options); err != nil {
		return nil, fmt.Errorf("reading fleet.yaml: %w", err)
	}
	// The same text is read as a Bundle's metadata as well: annotations, for one.
	var meta struct {
		metav1.ObjectMeta `json:",inline"`
	}
	if err := yaml.Unmarshal(data, &meta); err != nil {
		return nil, fmt.Errorf("reading fleet.yaml as metadata: %w", err)
	}
	if err := validate(&b.Options); err != nil {
		return nil, fmt.Errorf("validating fleet.yaml: %w", err)
	}
	b.Labels = meta.Labels
	if b.Options.Name != "" {
		b.Name = b.Options.Name
	}
	b.Options.Targets = append(b.Options.Targets, b.Options.TargetCustomizations...)
	handDown(&b.Options)
	if !fs.ValidPath(p.dir) {
		return b, nil // of the job's machine, which has no such folder
	}
	if _, err := fs.Stat(repo, p.dir); err != nil {
		return b, nil //nolint:nilerr // a folder that is not there has nothing in it
	}
	if err := readValues(repo, b); err != nil {
		return nil, err
	}
	if err := fetchable(repo, b); err != nil {
		return nil, err
	}
	if b.Files, err = collect(repo, p.dir, notStored(&b.Options, p)); err != nil {
		return nil, err
	}
	return b, dependencies(b)
}

// options are the text of a folder's options. One that the GitRepo named must be there.
func (p place) options(repo fs.FS) ([]byte, error) {
	if p.own {
		data, err := fs.ReadFile(repo, path.Join(p.dir, p.file))
		if err != nil {
			return nil, fmt.Errorf("failed to open file %q: %w", p.file, err)
		}
		return data, nil
	}
	for _, name := range []string{"fleet.yaml", "fleet.yml"} {
		data, err := fs.ReadFile(repo, path.Join(p.dir, name))
		if err == nil {
			return data, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
			return nil, fmt.Errorf("failed to open existing fleet.yaml in %q: %w", p.dir, err)
		}
	}
	return []byte("{}"), nil
}

// validate: bundlereader/validate_fleetyaml.go, and read.go of images. Fleet's chart
// leaves imagescan.enabled false (charts/fleet/values.yaml), and then takes no file
// with imageScans.
func validate(o *api.FleetYAML) error {
	for i, d := range o.DependsOn {
		if d.Name == "" && d.Selector == nil {
			return fmt.Errorf("dependsOn[%d]: must specify either 'name' or 'selector'", i)
		}
		for j, state := range d.AcceptedStates {
			if _, ok := api.StateRank[state]; !ok {
				return fmt.Errorf("dependsOn[%d].acceptedStates[%d]: invalid state %q", i, j, state)
			}
		}
	}
	if len(o.ImageScans) > 0 {
		return errors.New("imagescan is disabled; remove imagescans from your config files, or enable imagescan")
	}
	return nil
}

// handDown gives the chart of the bundle to its targets that name none
// (bundlereader/read.go, propagateHelmChartProperties).
func handDown(o *api.FleetYAML) {
	if o.Helm == nil {
		return
	}
	for _, t := range o.Targets {
		if t.Helm == nil {
			continue
		}
		for to, value := range map[*string]string{&t.Helm.Repo: o.Helm.Repo, &t.Helm.Chart: o.Helm.Chart, &t.Helm.Version: o.Helm.Version} {
			if *to == "" {
				*to = value
			}
		}
	}
}

// charts are what a bundle and its targets say of Helm.
func charts(o *api.FleetYAML) []*api.HelmOptions {
	var out []*api.HelmOptions
	if o.Helm != nil {
		out = append(out, o.Helm)
	}
	for _, t := range o.Targets {
		if t.Helm != nil {
			out = append(out, t.Helm)
		}
	}
	return out
}

// readValues lays the values files over the values, the later over the earlier. Those
// of the bundle itself are not read where it names no chart (bundlereader/resources.go,
// readResources and generateValues).
func readValues(repo fs.FS, b *Bundle) error {
	for _, h := range charts(&b.Options) {
		if h == b.Options.Helm && h.Chart == "" && h.Repo == "" {
			continue
		}
		values := map[string]any{}
		if h.Values != nil {
			values = h.Values.Data
		}
		for _, name := range h.ValuesFiles {
			data, err := fs.ReadFile(repo, path.Join(b.Dir, name))
			if err != nil {
				return fmt.Errorf("reading values file: %s/%s: %w", b.Dir, name, err)
			}
			var more api.GenericMap
			if err := yaml.Unmarshal(data, &more); err != nil {
				return fmt.Errorf("reading values file: %s/%s: %w", b.Dir, name, err)
			}
			values = over(values, more.Data)
		}
		if len(h.ValuesFiles) > 0 && len(values) > 0 {
			h.Values = &api.GenericMap{Data: values}
		}
	}
	return nil
}

// over lays one tree of values over another. What is not a map on both sides is replaced,
// by null as well.
func over(values, more map[string]any) map[string]any {
	out := maps.Clone(values)
	if out == nil {
		out = map[string]any{}
	}
	for key, to := range more {
		below, isMap := out[key].(map[string]any)
		if above, also := to.(map[string]any); isMap && also {
			to = over(below, above)
		}
		out[key] = to
	}
	return out
}

// notStored are the files of a folder that Fleet has read, and does not store
// (bundlereader/resources.go, ignoreApplyConfigs). A values file is left out under its
// bare name, too; a fleet.yml that nobody named is stored.
func notStored(o *api.FleetYAML, p place) []string {
	out := []string{"fleet.yaml", p.file}
	for _, h := range charts(o) {
		for _, name := range h.ValuesFiles {
			out = append(out, name, path.Base(name))
		}
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" })
}

// fetches reports whether Fleet fetches a chart for the bundle: one with a repository,
// and one that is not in the folder (bundlereader/resources.go, addRemoteCharts).
func fetches(repo fs.FS, b *Bundle) bool {
	return slices.ContainsFunc(charts(&b.Options), func(h *api.HelmOptions) bool {
		return h.Repo != "" || h.Chart != "" && !there(repo, path.Join(b.Dir, h.Chart))
	})
}

var elsewhere = regexp.MustCompile(`://|::|@|^git(hub|lab)\.com/|^bitbucket\.org/`)

// fetchable refuses charts that Fleet does not find, or that it fetches in ways which the lab
// does not support: archives of the web, Git (bundlereader/charturl.go, ChartURL, and
// source.go, parseSource).
func fetchable(repo fs.FS, b *Bundle) error {
	for _, h := range charts(&b.Options) {
		switch {
		case strings.HasPrefix(h.Repo, "oci://"), strings.HasPrefix(h.Chart, "oci://") && h.Repo == "":
		case h.Repo != "" && h.Chart == "":
			return fmt.Errorf("failed to resolve URL of repo=%s chart= version=%s: no chart name found", h.Repo, h.Version)
		case h.Repo != "", h.Chart == "", there(repo, path.Join(b.Dir, h.Chart)):
		case elsewhere.MatchString(h.Chart):
			return &Unknown{Where: b.Dir, What: "the chart " + h.Chart + " without a repository"}
		default:
			return fmt.Errorf("retrieving file from %q: no such file or directory", h.Chart)
		}
	}
	return nil
}

func there(repo fs.FS, name string) bool {
	_, err := fs.Stat(repo, name)
	return err == nil
}

// dependencies loads every chart of the folder, as Fleet does to fetch what they depend
// on: one that Helm cannot load stops all, and one that lacks others is not played
// (helmupdater/helmupdater.go).
func dependencies(b *Bundle) error {
	if b.Options.Helm != nil && b.Options.Helm.DisableDependencyUpdate {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(b.Files)) {
		if path.Base(name) != "Chart.yaml" {
			continue
		}
		var files []*loader.BufferedFile
		for inner, data := range under(b.Files, path.Dir(name)) {
			files = append(files, &loader.BufferedFile{Name: inner, Data: data})
		}
		ch, err := loader.LoadFiles(files)
		if err != nil {
			return fmt.Errorf("updating helm dependencies: %s: %w", name, err)
		}
		if err := action.CheckDependencies(ch, ch.Metadata.Dependencies); err != nil {
			return &Unknown{Where: path.Join(b.Dir, name), What: "charts that are fetched for that one: " + err.Error()}
		}
	}
	return nil
}
