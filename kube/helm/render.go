package helm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Capabilities are what templates may ask about a cluster.
type Capabilities struct {
	Kubernetes string   // e.g. v1.36.5+k3s1; empty: unknown, and constraints are not checked
	APIs       []string // e.g. monitoring.coreos.com/v1 or monitoring.coreos.com/v1/ServiceMonitor, beside Kubernetes' own
}

// Check checks a release without a cluster: the chart exists, it allows the Kubernetes
// version, and its own schema and those of the charts inside it accept the values. The error
// has all problems: a [*ValuesError] if values are wrong, a [*NotFoundError] if there is no
// chart. Problems that only a template detects are found by [Source.Render].
func (s Source) Check(ctx context.Context, r chart.Release, c Capabilities) error {
	ch, err := s.load(ctx, r)
	if err != nil {
		return err
	}
	_, err = prepare(ch, r, c)
	return err
}

// Render returns the manifest of a release, without a cluster: hooks left out, definitions of
// kinds first, documents in the order in which Helm installs them. The same release gives the
// same bytes, except for charts with random values.
func (s Source) Render(ctx context.Context, r chart.Release, c Capabilities) ([]byte, error) {
	ch, out, err := s.renderChart(ctx, r, c)
	if err != nil {
		return nil, err
	}
	return whole(ch, out), nil
}

// RenderWhole is Render with hooks: jobs that Helm runs around an installation.
func (s Source) RenderWhole(ctx context.Context, r chart.Release, c Capabilities) ([]byte, error) {
	ch, out, err := s.renderChart(ctx, r, c)
	if err != nil {
		return nil, err
	}
	text := whole(ch, out)
	for _, h := range out.hooks {
		text = fmt.Appendf(text, "---\n%s\n", h.Manifest)
	}
	return text, nil
}

func (s Source) renderChart(ctx context.Context, r chart.Release, c Capabilities) (*helmchart.Chart, *renderedChart, error) {
	ch, err := s.load(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	p, err := prepare(ch, r, c)
	if err != nil {
		return nil, nil, err
	}
	out, err := p.render(moment{revision: 1, install: true}, nil)
	return ch, out, err
}

func whole(ch *helmchart.Chart, out *renderedChart) []byte {
	var b bytes.Buffer
	for _, crd := range ch.CRDObjects() {
		fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", crd.Filename, bytes.TrimSpace(crd.File.Data))
	}
	b.WriteString(out.manifest)
	return b.Bytes()
}

// preparedChart is a chart with the values for it, checked.
type preparedChart struct {
	release chart.Release
	chart   *helmchart.Chart
	values  map[string]any // as given, in the types that Helm knows
	caps    *chartutil.Capabilities
}

// prepare brings a chart and values together, as `helm install` does before it renders.
func prepare(ch *helmchart.Chart, r chart.Release, c Capabilities) (*preparedChart, error) {
	if err := chartutil.ValidateReleaseName(r.Name); err != nil {
		return nil, fmt.Errorf("release %q: %w", r.Name, err)
	}
	values, err := chart.Normalize(r.Values)
	if err != nil {
		return nil, fmt.Errorf("release %s/%s: %w", r.Namespace, r.Name, err)
	}
	p := &preparedChart{release: r, chart: ch, values: values}
	if p.caps, err = c.helm(); err != nil {
		return nil, err
	}
	var errs []error
	if v := ch.Metadata.KubeVersion; v != "" && c.Kubernetes != "" && !chartutil.IsCompatibleRange(v, p.caps.KubeVersion.Version) {
		errs = append(errs,
			fmt.Errorf("chart %s wants Kubernetes %s, and the cluster's is %s: choose another version of one of them", nameAndVersion(ch), v, c.Kubernetes))
	}
	problems := mappings(ch, values, nil)
	dropReplacedDefaults(ch, values)
	if err := chartutil.ProcessDependenciesWithMerge(ch, values); err != nil {
		return nil, fmt.Errorf("chart %s: %w", nameAndVersion(ch), err)
	}
	all, err := chartutil.CoalesceValues(ch, values)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", nameAndVersion(ch), err)
	}
	found, err := checkSchema(ch, all, nil)
	errs = append(errs, err)
	if problems = append(problems, found...); len(problems) > 0 {
		errs = append(errs, &ValuesError{Chart: nameAndVersion(ch), Problems: problems})
	}
	return p, errors.Join(errs...)
}

// mappings removes values for a chart inside ch that are not mappings, and reports them:
// Helm's merge would stop there, and print the value.
func mappings(ch *helmchart.Chart, values map[string]any, keys []string) []chart.Problem {
	var out []chart.Problem
	for _, d := range ch.Dependencies() {
		at := append(slices.Clone(keys), d.Name())
		switch sub := values[d.Name()].(type) {
		case nil:
		case map[string]any:
			out = append(out, mappings(d, sub, at)...)
		default:
			delete(values, d.Name())
			out = append(out, chart.Problem{Path: chart.DottedPath(at), Text: "must be a mapping: the values of the chart " + d.Name()})
		}
	}
	return out
}

// dropReplacedDefaults drops the defaults of a chart, and of the charts inside it, that values replace with
// another type, for example a mapping with a list. Helm's own merge has the same result, but
// prints a warning for each.
func dropReplacedDefaults(ch *helmchart.Chart, values map[string]any) {
	dropOtherTypes(ch.Values, values)
	for _, d := range ch.Dependencies() {
		names := []string{d.Name()}
		for _, m := range ch.Metadata.Dependencies {
			if m.Name == d.Name() && m.Alias != "" {
				names = append(names, m.Alias)
			}
		}
		for _, name := range names {
			for _, above := range []map[string]any{ch.Values, values} {
				if sub, ok := above[name].(map[string]any); ok {
					dropReplacedDefaults(d, sub)
				}
			}
		}
	}
}

func dropOtherTypes(defaults, values map[string]any) {
	for k, v := range values {
		d, ok := defaults[k]
		if !ok || v == nil || d == nil {
			continue
		}
		dm, dok := d.(map[string]any)
		vm, vok := v.(map[string]any)
		switch {
		case dok && vok:
			dropOtherTypes(dm, vm)
		case dok != vok:
			delete(defaults, k)
		}
	}
}

// helm returns c as Helm's templates see it.
func (c Capabilities) helm() (*chartutil.Capabilities, error) {
	caps := chartutil.DefaultCapabilities.Copy()
	if c.Kubernetes != "" {
		v, err := chartutil.ParseKubeVersion(c.Kubernetes)
		if err != nil {
			return nil, fmt.Errorf("Kubernetes version %q: %w", c.Kubernetes, err) //nolint:staticcheck // a proper name
		}
		// With the distribution's suffix, as a cluster answers: charts ask for "+k3s".
		v.Version = c.Kubernetes
		caps.KubeVersion = *v
	}
	caps.APIVersions = slices.Concat(caps.APIVersions, c.APIs)
	return caps, nil
}

// nameAndVersion returns a chart's name and version.
func nameAndVersion(ch *helmchart.Chart) string {
	if ch == nil || ch.Metadata == nil {
		return ""
	}
	return ch.Metadata.Name + "-" + ch.Metadata.Version
}

// moment is what templates see of a release's life.
type moment struct {
	revision int
	install  bool
}

// renderedChart is what a chart becomes.
type renderedChart struct {
	manifest string // as it is kept in the release's record
	hooks    []*release.Hook
	notes    string
}

// render runs the templates. lookup reads from the cluster for them; nil: every lookup is
// empty.
func (p *preparedChart) render(at moment, lookup engine.ClientProvider) (*renderedChart, error) {
	top, err := chartutil.ToRenderValuesWithSchemaValidation(p.chart, p.values, chartutil.ReleaseOptions{
		Name: p.release.Name, Namespace: p.release.Namespace, Revision: at.revision, IsInstall: at.install, IsUpgrade: !at.install,
	}, p.caps, true)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", nameAndVersion(p.chart), err)
	}
	var files map[string]string
	if lookup == nil {
		files, err = engine.Render(p.chart, top)
	} else {
		files, err = engine.RenderWithClientProvider(p.chart, top, lookup)
	}
	if err != nil {
		return nil, fmt.Errorf("chart %s does not render with these values: %w", nameAndVersion(p.chart), err)
	}
	out := &renderedChart{}
	for name, body := range files {
		if path.Base(name) == "NOTES.txt" {
			if name == path.Join(p.chart.Name(), "templates", "NOTES.txt") {
				out.notes = body
			}
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, fmt.Errorf("chart %s renders something that is not YAML with these values: %w", nameAndVersion(p.chart), err)
	}
	var b strings.Builder
	for _, m := range manifests {
		fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", m.Name, m.Content)
	}
	out.manifest, out.hooks = b.String(), hooks
	return out, nil
}

// objects reads a manifest, in Helm's order of installation.
func objects(manifest string) ([]*unstructured.Unstructured, error) {
	objs, err := kube.Decode([]byte(manifest))
	if err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, 0, len(objs))
	for _, o := range objs {
		u := o.(*unstructured.Unstructured) // as Decode gives them
		if u.GetName() == "" {
			return nil, fmt.Errorf("manifest: %s without a name", u.GetKind())
		}
		out = append(out, u)
	}
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(rank(a.GetKind()), rank(b.GetKind()))
	})
	return out, nil
}

// rank is the position of a kind in Helm's order of installation. Definitions of kinds come
// first, with namespaces, because their readiness is awaited at once. Kinds that Helm does not
// know, which are those of definitions, come last.
func rank(kind string) int {
	if kind == "CustomResourceDefinition" {
		kind = "Namespace"
	}
	if i := slices.Index(releaseutil.InstallOrder, kind); i >= 0 {
		return i
	}
	return len(releaseutil.InstallOrder)
}
