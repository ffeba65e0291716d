package addon

import (
	"context"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/kube/verify"
)

// Checks are all checks of a part.
func (p Recipe) Checks() []verify.Check {
	var out []verify.Check
	if p.Web != nil && !p.Web.Checked {
		out = append(out, verify.Check{Name: "its page opens by its name", Try: verify.WebPage(p.Web.URL, p.Web.Login)})
	}
	for _, probe := range p.Probes {
		out = append(out, verify.Check{Name: "a volume is written and read", Try: probe.check})
	}
	out = append(out, p.Verify...)
	if len(out) == 0 {
		out = append(out, verify.Check{Name: "none", Try: p.reportUntried})
	}
	for i := range out {
		out[i].Part = p.Name
	}
	return out
}

// reportUntried says what tries a part that has no check.
func (p Recipe) reportUntried(context.Context, verify.Cluster) (string, error) {
	by := p.TriedBy
	switch {
	case by != "":
	case p.GPUs || p.Offers:
		by = "gpu:verify"
	case p.Fleet:
		by = "fleet:status"
	default:
		return "", verify.UncheckedError("cluster:status says whether it is ready")
	}
	return "", verify.UncheckedError(by + " tries it")
}

// check tests the class again, on a node and another, or on each if its volumes are local.
func (p Probe) check(ctx context.Context, c verify.Cluster) (string, error) {
	p.setDefaults()
	sc := p.class()
	if err := c.Kube.Get(ctx, sc); err != nil {
		return "", err
	}
	if err := p.prove(ctx, c.Kube, sc, nil); err != nil {
		return "", fmt.Errorf("class %s: %w", p.Class, err)
	}
	if !p.Local {
		p.Nodes = p.Nodes[:min(2, len(p.Nodes))]
	}
	return fmt.Sprintf("class %s, on %s", p.Class, strings.Join(p.Nodes, " and ")), nil
}
