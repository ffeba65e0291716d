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
	"github.com/cps-gpu/homelab/kube/helm"
)

// Severity is how serious a finding is.
type Severity int

const (
	Info    Severity = iota // worth knowing
	Warning                 // probably not meant
	Failure                 // Fleet refuses it, or silently does something else
)

func (s Severity) String() string { return [...]string{"info", "warning", "error"}[s] }

// MarshalText is String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one mistake in a repository.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"` // from the root of what was linted
	Line     int      `json:"line"` // 0: a folder
	Column   int      `json:"column"`
	Message  string   `json:"message"`
	Cure     string   `json:"cure,omitempty"`
}

// String returns the finding in one line, as a compiler would: names and texts of the
// repository are escaped for terminals.
func (f Finding) String() string {
	at := printable.Text(f.File)
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", at, f.Line, max(1, f.Column))
	}
	return fmt.Sprintf("%s: %s: %s [%s]", at, f.Severity, printable.Text(f.Message), f.Rule)
}

// Cluster is a cluster to which bundles may be deployed.
type Cluster struct {
	Name   string            `json:"name"`             // of the Cluster object; Rancher's own is "local"
	Labels map[string]string `json:"labels,omitempty"` // nil: not known, but those that Fleet gives "local" itself
	Groups []string          `json:"groups,omitempty"` // names of its ClusterGroups
}

// Options have what cannot be read from the repository. With the zero value, rules that need
// more are not checked.
type Options struct {
	// BundleScan has the GitRepo's settings. Without Paths and Bundles every folder with a
	// fleet.yaml counts as a bundle; without GitRepo, generated names are compared by their
	// end.
	BundleScan
	Clusters  []Cluster    // check targets against these; empty: targets are not checked
	Elsewhere []string     // names of bundles of other repositories, for dependsOn
	Releases  []string     // NAMESPACE/NAME of existing Helm releases in the clusters
	Site      *Site        // the cluster that the repository is for; nil: not known
	Charts    *helm.Source // source of charts that are not in the repository; nil: none
	Online    bool         // check that the charts' repositories have them
}

// Report has the findings.
type Report struct {
	Findings   []Finding // by file, line, column
	Suppressed int       // findings that a comment in the repository suppresses
	Bundles    int
	Files      int
}

// Count returns the number of findings that are at least as severe as s.
func (r *Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity >= s {
			n++
		}
	}
	return n
}

// Run reads a Fleet repository and reports its mistakes, without a cluster: what Fleet
// refuses, and above all what it silently accepts and does not do. An error means that the
// repository could not be read, not that it has mistakes.
//
// Pass an untrusted repository as [os.Root.FS]: [os.DirFS] follows links to anywhere.
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
	for _, check := range l.checks() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		check()
	}
	r := &Report{Bundles: len(l.bundles), Files: len(tree.files)}
	r.Findings, r.Suppressed = l.applySuppressions()
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Rule, b.Rule), strings.Compare(a.Message, b.Message))
	})
	r.Findings = slices.Compact(r.Findings)
	return r, ctx.Err()
}

// lintLocalLabels are the labels of Fleet's own cluster: name is Fleet's
// (internal/cmd/controller/agentmanagement/controllers/bootstrap), the other Rancher's.
func lintLocalLabels() map[string]string {
	return map[string]string{"name": "local", "management.cattle.io/cluster-display-name": "local"}
}

// Each checker looks at one side of a repository; what it finds goes to the linter.
type (
	fileCheck    struct{ *linter } // files, and where they are
	bundleCheck  struct{ *linter } // what Fleet makes of a fleet.yaml: names, namespaces, targets
	chartCheck   struct{ *linter } // charts, their values and releases
	objectCheck  struct{ *linter } // Kubernetes' objects
	overlayCheck struct{ *linter } // kustomizations, overlays, patches
)

// checks are the checks of a repository, each for some rules.
func (l *linter) checks() []func() {
	files, bundles, charts, objects, overlays := fileCheck{l}, bundleCheck{l}, chartCheck{l}, objectCheck{l}, overlayCheck{l}
	return []func(){
		files.checkSyntax, files.checkUnread, files.checkFleetYAMLs, files.checkIgnoreFiles,
		bundles.checkNames, bundles.checkDependsOn,
		charts.checkCharts, charts.checkValues, charts.checkTemplates, charts.checkReleases, charts.checkHub,
		bundles.checkNamespaces, files.checkLayout, files.checkKustomize, files.checkOverlays,
		bundles.checkTargets, bundles.checkRollout, overlays.checkPatches,
		objects.checkObjects, objects.checkWorkloads, objects.checkDuplicates, objects.checkState,
		objects.checkSecrets, objects.checkImages, bundles.checkFleetObjects, gitOpsCheck{l}.check, siteCheck{l}.check,
	}
}

// linter has the state of one run.
type linter struct {
	ctx     context.Context
	opt     Options
	tree    *lintTree
	rules   map[string]Rule
	bundles []*lintBundle
	awaited map[*lintBundle]*lintBundle // by a dependency, until it is Ready: the one that waits
	loose   []*lintObject               // objects outside bundles: Fleet's own kinds are checked
	found   []Finding
}

// add reports a finding with the rule's own cure.
func (l *linter) add(rule, file string, at yamlnode.Pos, format string, args ...any) {
	l.reportWithCure(rule, file, at, l.rules[rule].Cure, format, args...)
}

// reportWithCure reports a finding with a more specific cure.
func (l *linter) reportWithCure(rule, file string, at yamlnode.Pos, cure, format string, args ...any) {
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

// report reports a finding about a bundle's fleet.yaml; if it has none, about its folder.
func (l *linter) report(rule string, b *lintBundle, at yamlnode.Pos, format string, args ...any) {
	l.add(rule, b.mainFile(), at, format, args...)
}
