package helm

import (
	"context"
	"slices"

	helmchart "helm.sh/helm/v3/pkg/chart"

	"github.com/cps-gpu/homelab/kube/chart"
)

// Contents describes a chart without rendering it.
type Contents struct {
	Values    []string          // keys at the top of its values.yaml; nil: it has none
	Charts    []string          // charts inside it, by name and by alias: keys of values, too
	Templates map[string][]byte // its own and those of the charts inside it, by path
}

// Contents reads the chart of a release. The error is a [*NotFoundError] if there is no chart.
func (s Source) Contents(ctx context.Context, r chart.Release) (Contents, error) {
	ch, err := s.load(ctx, r)
	if err != nil {
		return Contents{}, err
	}
	out := Contents{Templates: map[string][]byte{}}
	for key := range ch.Values {
		out.Values = append(out.Values, key)
	}
	slices.Sort(out.Values)
	for _, d := range ch.Metadata.Dependencies {
		out.Charts = append(out.Charts, d.Name)
		if d.Alias != "" {
			out.Charts = append(out.Charts, d.Alias)
		}
	}
	out.templates(ch)
	return out, nil
}

func (c Contents) templates(ch *helmchart.Chart) {
	for _, t := range ch.Templates {
		c.Templates[ch.ChartFullPath()+"/"+t.Name] = t.Data
	}
	for _, inside := range ch.Dependencies() {
		c.templates(inside)
	}
}
