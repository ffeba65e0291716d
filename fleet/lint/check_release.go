package lint

import (
	"errors"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/internal/yamlnode"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

// checkReleases checks values against the chart: its schema, and for a chart in the repository
// the values that it knows.
func (l chartCheck) checkReleases() {
	for _, b := range l.bundles {
		switch {
		case b.Err != nil:
		case b.chart != "":
			l.localChart(b)
		case b.remote && (l.opt.Charts != nil || l.opt.Online):
			l.remoteChart(b)
		}
	}
}

// values are those of a bundle, with its values files, as Fleet merges them.
func (l chartCheck) values(b *lintBundle) map[string]any {
	out := map[string]any{}
	if h := b.YAML.Helm; h != nil {
		if h.Values != nil {
			chart.Merge(out, h.Values.DeepCopy().Data)
		}
		for _, name := range h.ValuesFiles {
			var more map[string]any
			if f := l.tree.files[path.Join(b.Dir, name)]; f != nil && readsValuesFiles(&b.YAML, h) && yaml.Unmarshal(f.data, &more) == nil {
				chart.Merge(out, more)
			}
		}
	}
	return out
}

func (l chartCheck) localChart(b *lintBundle) {
	values := l.values(b)
	at := b.root.Get("helm").Key("values")
	l.checkUnknownValues(b, values)
	schema := l.tree.files[path.Join(b.chart, "values.schema.json")]
	if schema == nil || b.YAML.Helm != nil && b.YAML.Helm.SkipSchemaValidation {
		return
	}
	all := map[string]any{}
	if f := l.tree.files[path.Join(b.chart, "values.yaml")]; f != nil {
		_ = yaml.Unmarshal(f.data, &all)
	}
	chart.Merge(all, values)
	problems, err := chart.SchemaProblems(schema.data, all)
	if err != nil {
		l.report("values-schema", b, at, "the chart's schema cannot be used: %v", err)
	}
	l.reportSchemaProblems(b, values, problems, "the chart's schema")
}

// reportSchemaProblems reports what a schema does not accept. Values that are rendered on each cluster are not
// judged.
func (l chartCheck) reportSchemaProblems(b *lintBundle, values map[string]any, problems []chart.Problem, by string) {
	for _, p := range problems {
		names := strings.FieldsFunc(p.Path, func(r rune) bool { return strings.ContainsRune(`.[]"`, r) })
		if !lintTemplated(values, names) {
			l.report("values-schema", b, l.valueAt(b, names, b.root.Get("helm").Key("values")), "%s refuses the values: %s", by, p)
		}
	}
}

// lintTemplated: the value is rendered on each cluster.
func lintTemplated(v any, at []string) bool {
	for _, name := range at {
		m, ok := v.(map[string]any)
		if !ok {
			return false
		}
		v = m[name]
	}
	text, ok := v.(string)
	return ok && (strings.Contains(text, "${") || strings.HasPrefix(text, clusterLabelPrefix))
}

// valueAt is the place of a value in fleet.yaml, or of its closest existing parent.
func (l chartCheck) valueAt(b *lintBundle, at []string, otherwise yamlnode.Pos) yamlnode.Pos {
	n := b.root.Get("helm", "values")
	for _, name := range at {
		if n.Get(name) == nil {
			break
		}
		otherwise, n = n.Key(name), n.Get(name)
	}
	return otherwise
}

var lintValuesUse = regexp.MustCompile(`\.Values\b`)

// checkUnknownValues finds top-level values that are in none of the chart's values.yaml, its
// subcharts and its templates.
func (l chartCheck) checkUnknownValues(b *lintBundle, values map[string]any) {
	var c helm.Contents
	for _, name := range []string{"values.yaml", "Chart.yaml"} {
		f := l.tree.files[path.Join(b.chart, name)]
		if f == nil || len(f.docs) == 0 {
			continue
		}
		if name == "values.yaml" {
			for _, v := range f.docs[0].Root.Fields {
				c.Values = append(c.Values, v.Name)
			}
		}
		for _, dep := range f.docs[0].Root.Get("dependencies").List() {
			c.Charts = append(c.Charts, dep.Get("name").Str(), dep.Get("alias").Str())
		}
	}
	c.Templates = map[string][]byte{}
	for _, f := range b.files {
		if strings.HasPrefix(f.name, b.chart+"/") && strings.Contains(f.name, "/templates/") {
			c.Templates[f.name] = f.data
		}
	}
	l.unknownValues(b, b.chart, c, values)
}

// unknownValues compares values with those of a chart.
func (l chartCheck) unknownValues(b *lintBundle, name string, c helm.Contents, values map[string]any) {
	if len(c.Values) == 0 {
		return // it does not list its values
	}
	known := slices.Concat(c.Values, c.Charts, []string{"global", "tags"})
	for _, value := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, value) && !chartMentions(c, value) {
			l.report("unknown-value", b, l.valueAt(b, []string{value}, b.root.Get("helm").Key("valuesFiles")), "the chart %s knows no value %s%s",
				name, value, didYouMean(value, known))
		}
	}
}

var lintWholeValues = regexp.MustCompile(`\.Values\s*[)}|,]|\.Values\s+\$?[A-Za-z"]|\$?root\b`)

// chartMentions: a template may use values that values.yaml does not list, or all of them.
func chartMentions(c helm.Contents, name string) bool {
	for _, text := range c.Templates {
		if lintValuesUse.Match(text) && (strings.Contains(string(text), name) || lintWholeValues.Match(text)) {
			return true
		}
	}
	return false
}

// remoteChart reads charts from their source: a folder, or their repository.
func (l chartCheck) remoteChart(b *lintBundle) {
	h := b.YAML.Helm
	if h.Repo == "" || h.Version == "" {
		return // a URL of an archive, or the newest version
	}
	source := helm.Source{Offline: !l.opt.Online}
	if l.opt.Charts != nil {
		source = *l.opt.Charts
		source.Offline = source.Offline || !l.opt.Online
	}
	r := chart.Release{Name: b.release(), Namespace: b.namespace(), Chart: h.Chart, Version: h.Version, Repo: h.Repo, Values: l.values(b)}
	if strings.HasPrefix(h.Repo, "oci://") {
		r.Repo, r.Chart = path.Dir(h.Repo), path.Base(h.Repo)
		r.Repo = strings.Replace(r.Repo, "oci:/", "oci://", 1)
	}
	if c, err := source.Contents(l.ctx, r); err == nil {
		l.unknownValues(b, r.Chart+" "+r.Version, c, r.Values)
		l.chartNamespaces(b, c.Templates)
	}
	err := source.Check(l.ctx, r, helm.Capabilities{})
	var invalid *helm.ValuesError
	switch {
	case err == nil:
	case errors.As(err, &invalid):
		if !h.SkipSchemaValidation {
			l.reportSchemaProblems(b, r.Values, invalid.Problems, "the schema of "+invalid.Chart)
		}
	case l.opt.Online:
		l.report("chart-unreachable", b, b.root.Get("helm").Key("repo"), "%v", err)
	}
}
