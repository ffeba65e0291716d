package lint

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/kube/chart"
)

// BundleScan has a GitRepo's settings about the places of its bundles.
type BundleScan struct {
	GitRepo string       // name of the GitRepo, with which names of bundles start
	Paths   []string     // GitRepo.spec.paths, wildcards allowed; empty: the whole repository
	Bundles []BundlePath // GitRepo.spec.bundles; if there are any, Paths is ignored
}

// BundlePath is an entry of GitRepo.spec.bundles.
type BundlePath struct{ Base, Options string }

// BundleSource is a folder that Fleet turns into a bundle.
type BundleSource struct {
	Dir  string // from the root of the repository, "." for the root
	File string // its fleet.yaml, or the file that BundlePath names; empty: none
	Name string // of the bundle, as Fleet names it

	YAML      v1alpha1.FleetYAML
	Resources []BundleFile // the folder's files that Fleet stores in the bundle, by name; without those of a remote chart
	Err       error        // why Fleet refuses the bundle, and with it the whole GitRepo

	own bool // the GitRepo named File
}

// BundleFile is a file of a bundle.
type BundleFile struct {
	Name string // from the bundle's folder
	Data []byte
}

// ReadBundles reads a repository as `fleet apply` does in a GitRepo's job: which folders
// become bundles, their names and contents. Folders with nothing to deploy are left out, as in
// Fleet.
//
// It follows fleet v0.16.1: internal/cmd/cli/apply/apply.go (CreateBundles,
// CreateBundlesDriven) and internal/bundlereader (read.go, resources.go,
// loaddirectory.go).
func ReadBundles(fsys fs.FS, scan BundleScan) ([]BundleSource, error) {
	tree, err := readTree(fsys)
	if err != nil {
		return nil, err
	}
	places, err := tree.scan(scan)
	if err != nil {
		return nil, err
	}
	var out []BundleSource
	for _, p := range places {
		s := tree.source(scan.GitRepo, p)
		if len(s.Resources) == 0 && s.Err == nil && !tree.remoteChart(s) {
			continue
		}
		out = append(out, *s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no resource found at the following paths to deploy: %v", scan.Paths)
	}
	return out, nil
}

// source reads one bundle.
func (t *lintTree) source(gitRepo string, p lintPlace) *BundleSource {
	s := &BundleSource{Dir: p.dir, File: p.file, Name: bundleName(gitRepo, p.dir), own: p.own}
	if rel, own := s.ownOptions(); own {
		s.Name = bundleName(gitRepo, path.Join(p.dir, strings.TrimSuffix(rel, path.Ext(rel))))
	}
	if s.File != "" {
		f := t.files[s.File]
		if f == nil {
			s.Err = fmt.Errorf("failed to open file %q: no such file", s.File)
			return s
		}
		s.Err = decodeFleetYAML(f.data, &s.YAML)
	}
	if s.YAML.Name != "" {
		s.Name = s.YAML.Name
	}
	if s.Err == nil {
		s.Err = errors.Join(validateFleetYAML(&s.YAML), t.checkValuesFiles(s), t.checkCharts(s))
	}
	files, err := t.storedFiles(s)
	if s.Err == nil {
		s.Err = errors.Join(err, chartsLoad(s, files))
	}
	for _, f := range files {
		s.Resources = append(s.Resources, BundleFile{strings.TrimPrefix(f.name, s.prefix()), f.data})
	}
	return s
}

// decodeFleetYAML decodes as Fleet does: unknown keys are dropped, case does not matter, and
// numbers become text where text is expected.
func decodeFleetYAML(data []byte, into *v1alpha1.FleetYAML) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading fleet.yaml: %v", r)
		}
	}()
	if err := yaml.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading fleet.yaml: %w", err)
	}
	// It is read again as the Bundle's metadata: annotations (read.go readMetadata).
	if err := yaml.Unmarshal(data, &struct{ metav1.ObjectMeta }{}); err != nil {
		return fmt.Errorf("reading fleet.yaml: %w", err)
	}
	return nil
}

// ownOptions is the options file that the GitRepo names (driven scans).
func (s *BundleSource) ownOptions() (string, bool) {
	return strings.TrimPrefix(s.File, s.prefix()), s.own
}

// prefix is the prefix of file names in the bundle's folder.
func (s *BundleSource) prefix() string {
	if s.Dir == "." {
		return ""
	}
	return s.Dir + "/"
}

// validateFleetYAML follows bundlereader/validate_fleetyaml.go and the checks of read.go.
func validateFleetYAML(fy *v1alpha1.FleetYAML) error {
	var errs []error
	for i, dep := range fy.DependsOn {
		if dep.Name == "" && dep.Selector == nil {
			errs = append(errs, fmt.Errorf("dependsOn[%d]: must specify either 'name' or 'selector'", i))
		}
		for j, state := range dep.AcceptedStates {
			if _, ok := v1alpha1.StateRank[state]; !ok {
				errs = append(errs, fmt.Errorf("dependsOn[%d].acceptedStates[%d]: invalid state %q", i, j, state))
			}
		}
	}
	if len(fy.ImageScans) > 0 { // Fleet's chart leaves imagescan.enabled false
		errs = append(errs, errors.New("imagescan is disabled; remove imagescans from your config files, or enable imagescan"))
	}
	return errors.Join(errs...)
}

// helms returns the charts that a fleet.yaml names: its own, and those of its targets.
func helms(fy *v1alpha1.FleetYAML) (out []*v1alpha1.HelmOptions) {
	if fy.Helm != nil {
		out = append(out, fy.Helm)
	}
	for _, targets := range [][]v1alpha1.BundleTarget{fy.Targets, fy.TargetCustomizations} {
		for i := range targets {
			if targets[i].Helm != nil {
				out = append(out, targets[i].Helm)
			}
		}
	}
	return out
}

// remoteChart says that a chart of the bundle is remote: Fleet fetches it, and the bundle
// contains its files (bundlereader/resources.go addRemoteCharts).
func (t *lintTree) remoteChart(s *BundleSource) bool {
	return slices.ContainsFunc(helms(&s.YAML), func(h *v1alpha1.HelmOptions) bool {
		return h.Repo != "" || h.Chart != "" && !t.exists(path.Join(s.Dir, h.Chart))
	})
}

// chartsLoad: Fleet loads every chart below a bundle's folder, deployed or not, to fetch its
// dependencies, and stops at one that Helm cannot load (helmupdater/helmupdater.go). Of Helm's
// requirements, this checks that the files are YAML.
func chartsLoad(s *BundleSource, files []*lintFile) error {
	if s.YAML.Helm != nil && s.YAML.Helm.DisableDependencyUpdate {
		return nil
	}
	all, charts := map[string]*lintFile{}, []string(nil)
	for _, f := range files {
		if all[f.name] = f; path.Base(f.name) == "Chart.yaml" {
			charts = append(charts, path.Dir(f.name))
		}
	}
	for _, dir := range charts {
		for _, name := range []string{"Chart.yaml", "values.yaml"} {
			if f := all[path.Join(dir, name)]; f != nil {
				if err := yaml.Unmarshal(f.data, &map[string]any{}); err != nil {
					return fmt.Errorf("updating helm dependencies: cannot load %s: %w", f.name, err)
				}
			}
		}
	}
	return nil
}

// readsValuesFiles: the bundle's own are read only if a chart is named, those of targets
// always (bundlereader/resources.go readResources).
func readsValuesFiles(fy *v1alpha1.FleetYAML, h *v1alpha1.HelmOptions) bool {
	return h != fy.Helm || h.Chart != "" || h.Repo != ""
}

func (t *lintTree) checkValuesFiles(s *BundleSource) error {
	var errs []error
	for _, h := range helms(&s.YAML) {
		if !readsValuesFiles(&s.YAML, h) {
			continue
		}
		for _, name := range h.ValuesFiles {
			var values map[string]any
			if f := t.files[path.Join(s.Dir, name)]; f == nil {
				errs = append(errs, fmt.Errorf("reading values file: %s/%s: no such file", s.Dir, name))
			} else if err := yaml.Unmarshal(f.data, &values); err != nil {
				errs = append(errs, fmt.Errorf("reading values file: %s/%s: %w", s.Dir, name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// checkCharts refuses charts that Fleet would not find (bundlereader/charturl.go ChartURL,
// source.go parseSource).
func (t *lintTree) checkCharts(s *BundleSource) error {
	var errs []error
	for _, h := range helms(&s.YAML) {
		switch {
		case strings.HasPrefix(h.Repo, "oci://"), h.Repo == "" && strings.HasPrefix(h.Chart, "oci://"):
		case h.Repo != "" && h.Chart == "" && (h == s.YAML.Helm || s.YAML.Helm == nil || s.YAML.Helm.Chart == ""):
			errs = append(errs, fmt.Errorf("failed to resolve URL of repo=%s chart=: no chart name found", h.Repo))
		case h.Repo == "" && h.Chart != "" && !isChartURL(h.Chart) && !t.exists(path.Join(s.Dir, h.Chart)) &&
			(h == s.YAML.Helm || s.YAML.Helm == nil || s.YAML.Helm.Repo == ""):
			errs = append(errs, fmt.Errorf("retrieving file from %q: no such file or directory", h.Chart))
		}
	}
	return errors.Join(errs...)
}

// Values returns the chart's values for clusters without a customization: those of fleet.yaml,
// overridden by its values files, in order (bundlereader/resources.go generateValues: files
// win over fleet.yaml).
func (s *BundleSource) Values(fsys fs.FS) (map[string]any, error) {
	h := s.YAML.Helm
	if h == nil {
		return nil, nil
	}
	values := map[string]any{}
	if h.Values != nil {
		values = h.Values.DeepCopy().Data
	}
	if !readsValuesFiles(&s.YAML, h) {
		return values, nil
	}
	for _, name := range h.ValuesFiles {
		data, err := fs.ReadFile(fsys, path.Join(s.Dir, name))
		if err != nil {
			return nil, fmt.Errorf("bundle %s: values file %s: %w", s.Name, name, err)
		}
		var more map[string]any
		if err := yaml.Unmarshal(data, &more); err != nil {
			return nil, fmt.Errorf("bundle %s: values file %s: %w", s.Name, name, err)
		}
		chart.Merge(values, more)
	}
	return values, nil
}
