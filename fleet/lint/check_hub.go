package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/fleet/lint/internal/hub"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// lintHub is the name of JupyterHub's chart.
const lintHub = "jupyterhub"

// checkHub checks the values of JupyterHub's chart: those of a bundle, and for each target
// those with the target's on top.
func (l chartCheck) checkHub() {
	for _, b := range l.bundles {
		var own hub.Values
		said := map[hub.Finding]bool{}
		for _, h := range l.helmsOf(b) {
			v := l.hubValues(b, h)
			if h.own {
				own = v
			} else {
				v = append(slices.Clone(own), v...)
			}
			later := func(text string) bool {
				return strings.Contains(text, "${") && !h.DisablePreProcess && (b.YAML.Helm == nil || !b.YAML.Helm.DisablePreProcess)
			}
			l.hubFindings("hub-python", v.Python(later), said)
			l.hubFindings("hub-conflict", v.Conflicts(h.node.Get("valuesFrom").Set() || h.node.Get("templateValues").Set()), said)
		}
	}
}

func (l chartCheck) hubFindings(rule string, found []hub.Finding, said map[hub.Finding]bool) {
	for _, f := range found {
		if said[f] {
			continue
		}
		said[f] = true
		l.reportWithCure(rule, f.File, f.At, f.Cure, "%s", f.What)
		if f.Fatal {
			l.found[len(l.found)-1].Severity = Failure
		}
	}
}

// hubValues are the sources of the hub's values, none where the chart is another. In a chart that
// contains the hub's they are below its name.
func (l chartCheck) hubValues(b *lintBundle, h lintHelm) (out hub.Values) {
	add := func(file *lintFile, root *yamlnode.Node, below string) {
		if file != nil && root != nil && below != "" {
			root = root.Get(below)
		}
		if file != nil && root != nil {
			out = append(out, hub.Source{File: file.name, Text: file.data, Root: root})
		}
	}
	below := ""
	switch c := l.tree.files[path.Join(b.Dir, h.Chart, "Chart.yaml")]; {
	case h.Repo != "" && (h.Chart == lintHub || h.Chart == "" && path.Base(h.Repo) == lintHub):
	case h.Repo != "" || c == nil || len(c.docs) == 0:
		return nil
	case c.docs[0].Root.Get("name").Str() != lintHub:
		for _, dep := range c.docs[0].Root.Get("dependencies").List() {
			if dep.Get("name").Str() == lintHub {
				below = lintHub
			}
		}
		if below == "" {
			return nil
		}
		if f := l.tree.files[path.Join(b.Dir, h.Chart, "values.yaml")]; f != nil && len(f.docs) > 0 && h.own {
			add(f, f.docs[0].Root, below)
		}
	}
	add(b.file, h.node.Get("values"), below)
	for _, n := range h.node.Get("valuesFiles").List() {
		if f := l.tree.files[path.Join(b.Dir, n.Str())]; f != nil && f.read && len(f.docs) > 0 && readsValuesFiles(&b.YAML, h.HelmOptions) {
			add(f, f.docs[0].Root, below)
		}
	}
	return out
}
