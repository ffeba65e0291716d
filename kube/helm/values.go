package helm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/cps-gpu/homelab/kube/chart"
)

// ValuesError says that a chart's own schema does not accept the values.
type ValuesError struct {
	Chart    string // name-version
	Problems []chart.Problem
}

// Error lists every problem.
func (e *ValuesError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return fmt.Sprintf("chart %s does not accept the values: %s", e.Chart, strings.Join(texts, "; "))
}

// checkSchema checks values, including the chart's defaults, against the schemas of a chart
// and of the charts inside it.
func checkSchema(ch *helmchart.Chart, values map[string]any, path []string) ([]chart.Problem, error) {
	var problems []chart.Problem
	if len(ch.Schema) > 0 {
		found, err := chart.SchemaProblems(ch.Schema, values, path...)
		if err != nil {
			return nil, fmt.Errorf("chart %s: its values.schema.json: %w", ch.ChartFullPath(), err)
		}
		problems = found
	}
	for _, d := range ch.Dependencies() {
		sub, ok := values[d.Name()].(map[string]any)
		if !ok {
			continue
		}
		found, err := checkSchema(d, sub, append(slices.Clone(path), d.Name()))
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

// UnknownValues returns the paths of a release's values that exist neither in the chart's own values
// nor in those of the charts inside it: usually typing errors that no schema reports.
// Everything below an empty value ({}, [] or nothing) counts as known, and so do the contents
// of lists. Some charts read keys that their values.yaml names in comments only, so use this
// for warnings.
func (s Source) UnknownValues(ctx context.Context, r chart.Release) ([]string, error) {
	ch, err := s.load(ctx, r)
	if err != nil {
		return nil, err
	}
	values, err := chart.Normalize(r.Values)
	if err != nil {
		return nil, err
	}
	var out []string
	unknown(&out, values, defaultValues(ch), nil)
	slices.Sort(out)
	return out, nil
}

// defaultValues returns the values of a chart with those of the charts inside it.
func defaultValues(ch *helmchart.Chart) map[string]any {
	all := maps.Clone(ch.Values)
	if all == nil {
		all = map[string]any{}
	}
	if _, ok := all["global"]; !ok {
		all["global"] = nil
	}
	for _, d := range ch.Dependencies() {
		inner := defaultValues(d)
		if own, ok := all[d.Name()].(map[string]any); ok {
			inner = chartutil.CoalesceTables(inner, own)
		}
		all[d.Name()] = inner
	}
	for _, m := range ch.Metadata.Dependencies {
		if m.Alias != "" {
			all[m.Alias] = nil
		}
	}
	return all
}

func unknown(out *[]string, values, known map[string]any, path []string) {
	for k, v := range values {
		at := append(slices.Clone(path), k)
		own, ok := known[k]
		if !ok {
			*out = append(*out, chart.DottedPath(at))
			continue
		}
		sub, isMap := v.(map[string]any)
		inner, has := own.(map[string]any)
		if isMap && has && len(inner) > 0 {
			unknown(out, sub, inner, at)
		}
	}
}
