package lint

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/yamlnode"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Severity is how bad a finding is.
type Severity int

const (
	Info    Severity = iota // worth knowing
	Warning                 // probably not meant
	Failure                 // Fleet refuses it, or silently does something else
)

func (s Severity) String() string { return [...]string{"info", "warning", "error"}[s] }

// MarshalText is String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that is wrong in a repository.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"` // from the root of what was linted
	Line     int      `json:"line"` // 0: a folder
	Column   int      `json:"column"`
	Message  string   `json:"message"`
	Cure     string   `json:"cure,omitempty"`
}

// String is the finding as a compiler would write it, in one line: names and texts of
// the repository are shown, and never obeyed by a terminal.
func (f Finding) String() string {
	at := printable.Text(f.File)
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", at, f.Line, max(1, f.Column))
	}
	return fmt.Sprintf("%s: %s: %s [%s]", at, f.Severity, printable.Text(f.Message), f.Rule)
}

// Cluster is a cluster that bundles may go to.
type Cluster struct {
	Name   string            `json:"name"`             // of the Cluster object; Rancher's own is "local"
	Labels map[string]string `json:"labels,omitempty"` // nil: not known, but those that Fleet gives "local" itself
	Groups []string          `json:"groups,omitempty"` // names of its ClusterGroups
}

// Options say what cannot be read from the repository. The zero value is
// enough: what then cannot be known is not judged.
type Options struct {
	// BundleScan is what the GitRepo says. Without Paths and Bundles every folder
	// with a fleet.yaml is taken for a bundle; without GitRepo, names that Fleet
	// makes up are matched by their end.
	BundleScan
	Clusters  []Cluster     // judge targets by these; empty: targets are not judged
	Elsewhere []string      // names of bundles that other repositories bring, for dependsOn
	Releases  []string      // NAMESPACE/NAME of Helm releases that are in the clusters already
	Charts    *chart.Source // where charts are that the repository does not hold; nil: nowhere
	Online    bool          // ask the charts' repositories whether they have them
}

// Report is what was found.
type Report struct {
	Findings   []Finding // by file, line, column
	Suppressed int       // findings that a comment in the repository answers for
	Bundles    int
	Files      int
}

// Count says how many findings are at least as bad as s.
func (r *Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity >= s {
			n++
		}
	}
	return n
}

// Run reads a Fleet repository and says what is wrong with it, without a cluster:
// what Fleet refuses, and above all what it accepts without a word and does not do.
// An error means that the repository could not be read, not that it is bad.
//
// A repository that is not trusted is given as [os.Root.FS]: [os.DirFS] follows links
// to anywhere.
func Run(ctx context.Context, fsys fs.FS, o Options) (*Report, error) {
	tree, err := readTree(fsys)
	if err != nil {
		return nil, err
	}
	o.Clusters = slices.Clone(o.Clusters)
	for i, c := range o.Clusters {
		if c.Name == "local" && c.Labels == nil {
			o.Clusters[i].Labels = lintLocalLabels()
		}
	}
	l := &linter{ctx: ctx, opt: o, tree: tree, rules: lintRuleIndex()}
	if err := l.load(); err != nil {
		return nil, err
	}
	for _, check := range lintChecks() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		check(l)
	}
	r := &Report{Bundles: len(l.bundles), Files: len(tree.files)}
	r.Findings, r.Suppressed = l.unsuppressed()
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Rule, b.Rule), strings.Compare(a.Message, b.Message))
	})
	r.Findings = slices.Compact(r.Findings)
	return r, ctx.Err()
}

// lintLocalLabels are those of the cluster that Fleet itself runs in: name is Fleet's
// (internal/cmd/controller/agentmanagement/controllers/bootstrap), the other Rancher's.
func lintLocalLabels() map[string]string {
	return map[string]string{"name": "local", "management.cattle.io/cluster-display-name": "local"}
}

// lintChecks are the passes over a repository, each for some rules.
func lintChecks() []func(*linter) {
	return []func(*linter){
		(*linter).checkSyntax, (*linter).checkUnread, (*linter).checkFleetYAMLs, (*linter).checkIgnoreFiles,
		(*linter).checkNames, (*linter).checkDependsOn,
		(*linter).checkCharts, (*linter).checkValues, (*linter).checkTemplates, (*linter).checkReleases,
		(*linter).checkNamespaces, (*linter).checkLayout, (*linter).checkKustomize, (*linter).checkOverlays,
		(*linter).checkTargets, (*linter).checkRollout, (*linter).checkPatches,
		(*linter).checkObjects, (*linter).checkWorkloads, (*linter).checkDuplicates, (*linter).checkState,
		(*linter).checkSecrets, (*linter).checkImages, (*linter).checkFleetObjects,
	}
}

// linter is a repository being linted.
type linter struct {
	ctx     context.Context
	opt     Options
	tree    *lintTree
	rules   map[string]Rule
	bundles []*lintBundle
	loose   []*lintObject // objects in no bundle: Fleet's own kinds among them are checked
	found   []Finding
}

// add reports a finding of a rule, with the rule's cure.
func (l *linter) add(rule, file string, at yamlnode.Pos, format string, args ...any) {
	l.cure(rule, file, at, l.rules[rule].Cure, format, args...)
}

// cure reports a finding whose cure is known better.
func (l *linter) cure(rule, file string, at yamlnode.Pos, cure, format string, args ...any) {
	r, ok := l.rules[rule]
	if !ok {
		panic("fleet: lint rule without a row in the table: " + rule)
	}
	if at == (yamlnode.Pos{}) && l.tree.files[file] != nil && l.tree.files[file].data != nil {
		at = yamlnode.Pos{Line: 1, Col: 1} // of the file as a whole
	}
	l.found = append(l.found, Finding{
		Rule: rule, Severity: r.Severity, File: file, Line: at.Line, Column: at.Col,
		Message: fmt.Sprintf(format, args...), Cure: cure,
	})
}

// in reports a finding about a bundle's fleet.yaml; where it has none, about its folder.
func (l *linter) in(rule string, b *lintBundle, at yamlnode.Pos, format string, args ...any) {
	l.add(rule, b.where(), at, format, args...)
}
