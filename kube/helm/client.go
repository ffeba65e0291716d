package helm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/release"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// manager is the field manager of releases: Helm's own name, which its version 4 also uses for
// server-side apply. Fields that version 3 wrote are taken over.
const manager = "helm"

// Client installs releases in one cluster. It is safe for concurrent use.
type Client struct {
	cluster
	source Source
}

// cluster reads, writes, awaits and removes the objects of releases.
type cluster struct {
	kube *kube.Client // under our own name: namespaces
	helm *kube.Client // under Helm's
}

// NewClient makes a Client. It does not connect yet.
func NewClient(k *kube.Client, s Source) *Client {
	return &Client{cluster{k, k.WithFieldManager(manager)}, s}
}

// State is a release as it is in the cluster.
type State struct {
	Installed bool
	Chart     string // name-version
	Revision  int
	Status    string        // Helm's status, e.g. deployed, failed, pending-upgrade
	Changes   converge.Diff // what an upgrade would change, secrets masked; empty: nothing to do
	Waiting   []string      // what is not ready yet, in words: "deployment jupyterhub/hub: 0 of 1 pods are ready"
}

// Observe reads a release: whether it is installed, what an upgrade to r would change, and
// what of it is not ready. It writes nothing.
//
// Changes has the differences of chart and values, and each object that differs from what the
// release says, no matter who changed it. A release of the same chart and values has no
// changes, even if its templates use random values or ask the cluster: it keeps what it was
// rendered from.
func (c *Client) Observe(ctx context.Context, r chart.Release) (State, error) {
	p, err := c.plan(ctx, r)
	if err != nil {
		return State{}, err
	}
	s := State{Installed: p.deployed != nil}
	if p.last != nil {
		s.Chart, s.Revision, s.Status = nameAndVersion(p.last.Chart), p.last.Version, p.last.Info.Status.String()
	}
	if !s.Installed {
		s.Changes = converge.Missing(nameAndVersion(p.chart.chart))
		if p.last != nil {
			s.Changes[0].Note = fmt.Sprintf("revision %d is %s: it was interrupted, and is installed again", s.Revision, s.Status)
		}
		return s, nil
	}
	s.Chart = nameAndVersion(p.deployed.Chart)
	s.Changes = p.differs()
	looks, err := c.survey(ctx, p)
	if err != nil {
		return State{}, err
	}
	for _, l := range looks {
		s.Changes = append(s.Changes, l.diff...)
		if l.waiting != "" {
			s.Waiting = append(s.Waiting, l.waiting)
		}
	}
	return s, nil
}

// differs lists how the inputs of a release differ from those of the last revision.
func (p *plan) differs() converge.Diff {
	if p.same {
		return nil
	}
	var d converge.Diff
	if s := p.last.Info.Status; s != release.StatusDeployed {
		d = append(d, converge.Field{Path: "status", Have: s.String(), Want: release.StatusDeployed.String(), Effect: converge.Update, Note: "it was interrupted, and is installed again"})
	}
	d = append(d, converge.Compare("chart", nameAndVersion(p.deployed.Chart), nameAndVersion(p.chart.chart), converge.Update)...)
	if canonical(p.deployed.Config) != p.config {
		values(&d, []string{"values"}, p.deployed.Config, p.chart.values)
	}
	if len(d) == 0 {
		d = converge.Diff{{Path: "manifest", Have: "as it was rendered", Want: "as it renders now", Effect: converge.Update,
			Note: "the chart's files changed, or what the cluster serves"}}
	}
	return d
}

// values appends the differences between the values of two revisions. Values whose names
// suggest a secret are masked: ours have none, but those of a release that somebody installed
// with Helm may.
func values(d *converge.Diff, path []string, have, want any) {
	if text64(have) == text64(want) { // empty values count: false is not the chart's true
		return
	}
	h, hok := have.(map[string]any)
	w, wok := want.(map[string]any)
	if hok && wok || hok && want == nil || wok && have == nil {
		keys := slices.Sorted(maps.Keys(h))
		for k := range w {
			if _, both := h[k]; !both {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			values(d, append(slices.Clone(path), k), h[k], w[k])
		}
		return
	}
	hl, hok := have.([]any)
	wl, wok := want.([]any)
	if hok && wok && len(hl) == len(wl) {
		for i := range hl {
			values(d, append(slices.Clone(path), strconv.Itoa(i)), hl[i], wl[i])
		}
		return
	}
	f := converge.Field{Path: strings.Join(path, "/"), Have: shortValue(have), Want: shortValue(want), Effect: converge.Update}
	if secretLike(path) {
		if f.Have != "" {
			f.Have = secret.Mask
		}
		if f.Want != "" {
			f.Want = secret.Mask
		}
	}
	*d = append(*d, f)
}

// secretLike reports whether a value's name suggests a secret.
func secretLike(path []string) bool {
	for _, p := range path {
		p = strings.ToLower(p)
		for _, word := range []string{"secret", "password", "passwd", "token", "credential", "apikey", "api_key", "accesskey", "privatekey", "cookie", "kubeconfig"} {
			if strings.Contains(p, word) {
				return true
			}
		}
	}
	return false
}

// shortValue writes a value as one readable line. Mappings and lists, which may hold secrets, are
// only counted.
func shortValue(v any) string {
	const most = 60
	var s string
	switch v := v.(type) {
	case nil:
		return ""
	case map[string]any:
		return fmt.Sprintf("%d keys", len(v))
	case []any:
		return fmt.Sprintf("%d entries", len(v))
	case string:
		s = strings.Join(strings.Fields(v), " ")
		if s == "" {
			s = `""`
		}
	default:
		s = text64(v)
	}
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}

// Diff says how the release differs from the wanted one, readiness included.
func (have State) Diff() converge.Diff {
	d := slices.Clone(have.Changes)
	for _, w := range have.Waiting {
		name, why, ok := strings.Cut(w, ": ")
		if !ok {
			name, why = "ready", w
		}
		d = append(d, converge.Field{Path: strings.Replace(name, " ", "/", 1), Have: "not ready", Want: "ready", Effect: converge.Update, Note: why})
	}
	return d
}
