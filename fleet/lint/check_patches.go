package lint

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// checkPatches checks comparePatches: a mistake in them only shows as a bundle that stays
// Modified (agent/deployer/desiredset/diff.go).
func (l overlayCheck) checkPatches() {
	for _, b := range l.bundles {
		for _, holder := range append([]*yamlnode.Node{b.root}, nodesOf(l.targets(b))...) {
			for _, p := range holder.Get("diff", "comparePatches").List() {
				l.patch(b, p)
			}
		}
	}
}

func (l overlayCheck) patch(b *lintBundle, p *yamlnode.Node) {
	for _, key := range []string{"apiVersion", "kind"} {
		if p.Get(key).Str() == "" {
			l.report("compare-patch", b, p.At, "a patch without %s matches nothing", key)
		}
	}
	if _, err := schema.ParseGroupVersion(p.Get("apiVersion").Str()); err != nil {
		l.report("compare-patch", b, p.Get("apiVersion").Place(), "%v: the agent stops comparing", err)
	}
	for _, n := range p.Get("jsonPointers").List() {
		l.pointer(b, n)
	}
	ignores := false
	for _, op := range p.Get("operations").List() {
		ignores = ignores || op.Get("op").Str() == "ignore"
		l.operation(b, op)
	}
	name := p.Get("name")
	if ignores && name.Str() != "" {
		if _, err := regexp.Compile(name.Str()); err != nil {
			l.report("compare-patch", b, name.At, "the name of an ignored object must be a regular expression: %v", err)
		}
	}
	l.patchMeets(b, p, ignores)
}

// pointer: RFC 6901.
func (l overlayCheck) pointer(b *lintBundle, n *yamlnode.Node) {
	switch bad := regexp.MustCompile(`~([^01]|$)`); {
	case !strings.HasPrefix(n.Str(), "/"):
		l.report("compare-patch", b, n.Place(), "%q is not a JSON pointer: it begins with /, and / in a name is written ~1", n.Str())
	case bad.MatchString(n.Str()):
		l.report("compare-patch", b, n.Place(), "%q is not a JSON pointer: ~ is followed by 0 (for ~) or 1 (for /)", n.Str())
	}
}

func (l overlayCheck) operation(b *lintBundle, op *yamlnode.Node) {
	known := []string{"remove", "ignore", "add", "replace", "test"}
	switch what := op.Get("op").Str(); {
	case !slices.Contains(known, what):
		l.report("compare-patch", b, op.At, "there is no operation %q%s", what, didYouMean(what, known))
	case what == "ignore":
		if n := op.Get("path"); n.Str() != "" {
			l.report("compare-patch", b, n.At, "ignore leaves out the whole object, and uses no path: did you mean remove?")
		}
	case op.Get("path").Str() == "":
		l.report("compare-patch", b, op.At, "%s needs a path", what)
	default:
		l.pointer(b, op.Get("path"))
	}
}

// patchMeets checks patches of a bundle of plain manifests, whose objects are all known.
func (l overlayCheck) patchMeets(b *lintBundle, p *yamlnode.Node, pattern bool) {
	kind, name := p.Get("kind").Str(), p.Get("name").Str()
	if !b.raw() && len(b.built) != 1 || len(b.objects) == 0 || kind == "" {
		return
	}
	re, err := regexp.Compile(name)
	for _, o := range b.objects {
		if o.kind == kind && o.apiVersion == p.Get("apiVersion").Str() && (name == "" || name == o.name || pattern && err == nil && re.MatchString(o.name)) {
			return
		}
	}
	l.report("compare-patch-unused", b, p.At, "the bundle has no %s %s of %s", kind, name, p.Get("apiVersion").Str())
}
