package helm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/cps-gpu/homelab/kube/chart"
)

// plan is a wanted release together with the cluster's records of it.
type plan struct {
	release  chart.Release
	chart    *preparedChart
	crds     []definition       // of crds folders
	history  []*release.Release // not superseded, oldest first
	last     *release.Release   // nil: never started
	deployed *release.Release   // nil: never succeeded
	files    string             // digest of the chart
	inputs   string             // digest of everything that templates can see, except lookups
	config   string             // values, as text to compare

	same bool           // the last revision is up to date, and its manifest is the wanted one
	next *renderedChart // what the chart renders now; nil if that is not needed
}

// manifest returns what should be in the cluster.
func (p *plan) manifest() string {
	if p.same {
		return p.last.Manifest
	}
	return p.next.manifest
}

// plan reads the chart and the cluster's records. It changes nothing.
func (c *Client) plan(ctx context.Context, r chart.Release) (*plan, error) {
	p := &plan{release: r}
	var ch *helmchart.Chart
	var caps Capabilities
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { ch, err = c.source.load(gctx, r); return err })
	g.Go(func() (err error) { caps, err = c.capabilities(gctx); return err })
	g.Go(func() (err error) { p.history, err = c.history(gctx, r.Namespace, r.Name); return err })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if n := len(p.history); n > 0 {
		p.last = p.history[n-1]
	}
	for _, rel := range p.history {
		if rel.Info.Status == release.StatusDeployed {
			p.deployed = rel
		}
	}
	values, err := chart.Normalize(r.Values)
	if err != nil {
		return nil, fmt.Errorf("release %s/%s: %w", r.Namespace, r.Name, err)
	}
	p.config = canonical(values)
	p.files = digest(ch)
	if p.chart, err = prepare(ch, r, caps); err != nil {
		return nil, fmt.Errorf("release %s/%s: %w", r.Namespace, r.Name, err)
	}
	p.inputs = p.digest(caps)
	if p.crds, err = definitions(ch); err != nil {
		return nil, err
	}
	return p, c.renderUnlessSame(ctx, p)
}

// renderUnlessSame decides whether the last revision is still the wanted one. It is, if it was
// made from the same chart and values and the cluster serves the same kinds. If only the kinds
// changed, or Helm made it, it is if the chart renders the same again, except for random
// values.
func (c *Client) renderUnlessSame(ctx context.Context, p *plan) error {
	asked := p.last != nil && p.last.Info.Status == release.StatusDeployed &&
		nameAndVersion(p.last.Chart) == nameAndVersion(p.chart.chart) && canonical(p.last.Config) == p.config
	if asked && p.last.Labels[labelInputs] == p.inputs {
		p.same = true
		return nil
	}
	if p.deployed == nil {
		return nil // an earlier part may install what the templates ask for
	}
	if asked {
		var err error
		if p.same, err = p.rendersAgain(p.last, lookup{ctx: ctx, kube: c.kube}); err != nil || p.same {
			return err
		}
	}
	return c.render(ctx, p)
}

// render renders the next revision.
func (c *Client) render(ctx context.Context, p *plan) (err error) {
	p.next, err = p.chart.render(p.moment(), lookup{ctx: ctx, kube: c.kube})
	return err
}

// rendersAgain reports whether a chart renders the same as for a revision, except for random
// values.
func (p *plan) rendersAgain(rel *release.Release, look lookup) (bool, error) {
	then := moment{revision: rel.Version, install: rel.Version == 1}
	one, err := p.chart.render(then, look)
	if err != nil {
		return false, err
	}
	another := one
	if one.manifest != rel.Manifest {
		if another, err = p.chart.render(then, look); err != nil {
			return false, err
		}
	}
	return equalManifests(rel.Manifest, one.manifest, another.manifest), nil
}

// moment says whether the next revision is an install or an upgrade. A release that never
// succeeded is installed again: its install hooks may not have run.
func (p *plan) moment() moment {
	if p.last == nil {
		return moment{revision: 1, install: true}
	}
	return moment{revision: p.last.Version + 1, install: p.deployed == nil}
}

// canonical writes values so that equal values have equal text.
func canonical(values map[string]any) string {
	if len(values) == 0 {
		return "{}"
	}
	b, _ := json.Marshal(values)
	return string(b)
}

// digest is over all files of a chart, those of the charts inside it included.
func digest(ch *helmchart.Chart) string {
	h := sha256.New()
	raw := slices.Clone(ch.Raw)
	slices.SortFunc(raw, func(a, b *helmchart.File) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range raw {
		_, _ = fmt.Fprintf(h, "%d:%s%d:", len(f.Name), f.Name, len(f.Data))
		_, _ = h.Write(f.Data)
	}
	return sum(h)
}

// sum is short enough for a label, whose value has 63 characters at most.
func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

// digest covers everything that a release is rendered from. Of the kinds that the cluster
// serves it includes only those that the chart's files ask for; otherwise every new kind would
// make all releases render again.
func (p *plan) digest(caps Capabilities) string {
	h := sha256.New()
	for _, part := range []string{p.files, p.config, p.release.Name, p.release.Namespace, caps.Kubernetes} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	text := capabilityTemplates(p.chart.chart)
	for _, api := range caps.APIs {
		if bytes.Contains(text, []byte(api)) {
			_, _ = fmt.Fprintf(h, " %s", api)
		}
	}
	return sum(h)
}

// capabilityTemplates returns the templates in which a chart asks what the cluster serves.
func capabilityTemplates(ch *helmchart.Chart) []byte {
	var out []byte
	for _, f := range ch.Templates {
		if bytes.Contains(f.Data, []byte("APIVersions")) {
			out = append(out, f.Data...)
		}
	}
	for _, d := range ch.Dependencies() {
		out = append(out, capabilityTemplates(d)...)
	}
	return out
}

// capabilities reads from the cluster what templates may ask for.
func (c *Client) capabilities(ctx context.Context) (Capabilities, error) {
	var caps Capabilities
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { caps.Kubernetes, err = c.kube.Version(ctx); return err })
	g.Go(func() (err error) { caps.APIs, err = c.kube.APIs(ctx); return err })
	return caps, g.Wait()
}

// awaitCapabilities is capabilities that waits for an API server that does not answer.
func (c *Client) awaitCapabilities(ctx context.Context) (caps Capabilities, err error) {
	err = patiently(ctx, func(ctx context.Context) (err error) { caps, err = c.capabilities(ctx); return err })
	return caps, err
}
