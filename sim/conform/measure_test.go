package conform

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	_ "embed"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// explainedYAML lists where pvesim differs from the schema, with reasons.
//
//go:embed explained.yaml
var explainedYAML []byte

// explanations has the contents of explained.yaml.
type explanations struct {
	Formats map[string]string `yaml:"formats"` // name -> why everything goes
}

// Trees are the parts of the API that are counted, the deepest first.
func Trees() []string {
	return []string{"/nodes/{node}/qemu", "/nodes/{node}/storage", "/nodes/{node}/tasks", "/cluster/mapping", "/cluster/firewall", "/access", "/pools", "/storage", "/cluster", "/nodes", "/version"}
}

// Tree is the coverage of one part of the API.
type Tree struct {
	Path              string
	Served, Methods   int
	Taken, Parameters int      // of the served methods; path variables are not counted
	Missing           []string // methods
}

// Report is the result of a comparison.
type Report struct {
	Product   []string          // methods that the product calls
	Recorded  map[string]string // those of them that lives asked for, with the parameters that they sent
	Trees     []Tree
	ByCheck   int // methods whose permissions are evaluated from the schema
	ByCode    int // that are open to all by the schema
	RootOnly  int
	Unchecked []string // named formats of served parameters that accept everything
	Problems  []string // problems
	Explained explanations
}

// Err returns an error if something is missing that the product needs, or without an
// explanation.
func (r *Report) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	return errors.New("sim:coverage: " + fmt.Sprint(len(r.Problems)) + " things are not as they should be:\n  " + strings.Join(r.Problems, "\n  "))
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Coverage compares pvesim with Proxmox's schema. root is the repository, whose
// source is read.
func Coverage(root string) (*Report, error) {
	full, err := loadAPI()
	if err != nil {
		return nil, err
	}
	r := &Report{Recorded: map[string]string{}}
	if err := yaml.Unmarshal(explainedYAML, &r.Explained); err != nil {
		return nil, fmt.Errorf("explained.yaml: %w", err)
	}
	served := map[string]pvesim.Method{}
	for _, m := range pvesim.Methods() {
		served[m.Name] = m
	}
	r.trees(full, served)
	r.permissions(full, served)
	r.formats(served)
	if err := r.product(full, served, root); err != nil {
		return nil, err
	}
	slices.Sort(r.Problems)
	return r, nil
}

func treeOf(name string) string {
	p := path(name)
	for _, t := range Trees() {
		if p == t || strings.HasPrefix(p, t+"/") {
			return t
		}
	}
	return ""
}

func (r *Report) trees(full *api, served map[string]pvesim.Method) {
	trees := map[string]*Tree{}
	for _, t := range Trees() {
		trees[t] = &Tree{Path: t}
	}
	for _, name := range slices.Sorted(maps.Keys(full.Methods)) {
		t := trees[treeOf(name)]
		if t == nil {
			continue
		}
		t.Methods++
		m, there := served[name]
		if !there {
			t.Missing = append(t.Missing, name)
			continue
		}
		t.Served++
		r.parameters(t, name, full.Methods[name], m)
	}
	for _, t := range Trees() {
		r.Trees = append(r.Trees, *trees[t])
	}
	for name := range served {
		if _, real := full.Methods[name]; !real {
			r.problem("%s is served and Proxmox has no such method", name)
		}
	}
}

func (r *Report) parameters(t *Tree, name string, real apiMethod, m pvesim.Method) {
	for k, want := range real.Parameters {
		if slices.Contains(inPath(name), k) {
			continue
		}
		t.Parameters++
		have, taken := m.Parameters[k]
		if !taken {
			continue
		}
		t.Taken++
		if !sameJSON(want, have) {
			r.problem("%s: parameter %s is defined otherwise: %s instead of %s", name, k, have, want)
		}
	}
}

func (r *Report) permissions(full *api, served map[string]pvesim.Method) {
	for _, name := range slices.Sorted(maps.Keys(served)) {
		m, real := served[name], full.Methods[name]
		if !sameJSON(m.Permissions, real.Permissions) || m.NoToken != real.NoToken {
			r.problem("%s: permissions are %s instead of %s", name, orNull(m.Permissions), orNull(real.Permissions))
		}
		var perms map[string]any
		_ = json.Unmarshal(orNull(real.Permissions), &perms)
		switch {
		case perms == nil:
			r.RootOnly++
		case perms["check"] != nil:
			r.ByCheck++
		default:
			r.ByCode++
		}
	}
}

func (r *Report) formats(served map[string]pvesim.Method) {
	checked := map[string]bool{}
	for _, f := range pvesim.Formats() {
		checked[f] = true
	}
	open := map[string]bool{}
	for _, m := range served {
		for _, raw := range m.Parameters {
			for _, f := range formatNames(raw) {
				if f = strings.TrimSuffix(f, "-list"); !checked[f] && !checked[f+"-list"] {
					open[f] = true
				}
			}
		}
	}
	r.Unchecked = sortedKeys(open)
	for _, f := range r.Unchecked {
		if r.Explained.Formats[f] == "" {
			r.problem("format %s accepts everything; check it in formats.go, or say in explained.yaml why not", f)
		}
	}
	for f := range r.Explained.Formats {
		if !open[f] {
			r.problem("explained.yaml: format %s is explained, and is checked or unknown", f)
		}
	}
}

// formatNames are the named formats in a parameter's definition, nested ones too.
func formatNames(raw json.RawMessage) (out []string) {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	var walk func(v any)
	walk = func(v any) {
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		for k, x := range m {
			if name, isText := x.(string); k == "format" && isText {
				out = append(out, name)
				continue
			}
			walk(x)
		}
	}
	walk(v)
	return out
}

// product finds the product's calls, and reports missing methods.
func (r *Report) product(full *api, served map[string]pvesim.Method, root string) error {
	all := slices.Sorted(maps.Keys(full.Methods))
	asked := map[string]bool{}
	sites, err := callSites(filepath.Join(root, "proxmox"))
	if err != nil {
		return err
	}
	if len(sites) < 20 {
		r.problem("only %d call sites found in package proxmox: the search does not know how calls are made any more", len(sites))
	}
	for _, site := range sites {
		found := methodsFor(site, all)
		if len(found) == 0 {
			r.problem("proxmox calls %s, which is not a method of Proxmox VE", site)
		}
		some := slices.DeleteFunc(slices.Clone(found), func(name string) bool { _, ok := served[name]; return !ok })
		if len(found) > 0 && len(some) == 0 {
			r.problem("proxmox calls %s, which pvesim does not serve", site)
		}
		if len(found) == 1 {
			asked[found[0]] = true
		}
	}
	for line := range strings.Lines(recordedCalls) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		p, params, _ := strings.Cut(rest, " ")
		name := verb + " " + p
		asked[name] = true
		r.Recorded[name] = params
		m, there := served[name]
		if !there {
			r.problem("a life asked for %s, which pvesim does not serve", name)
		}
		for _, k := range strings.Fields(params) {
			if m.Parameters[k] == nil && m.Parameters[strings.TrimRight(k, "0123456789")+"[n]"] == nil {
				r.problem("a life sent %s to %s, which does not know it", k, name)
			}
		}
	}
	r.Product = sortedKeys(asked)
	return nil
}
