package lint

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// checkPatches judges comparePatches: what is wrong in them is found out by a bundle
// that is Modified for ever (agent/deployer/desiredset/diff.go).
func (l *linter) checkPatches() {
	for _, b := range l.bundles {
		for _, holder := range append([]*lintNode{b.root}, nodesOf(l.targets(b))...) {
			for _, p := range holder.get("diff", "comparePatches").list() {
				l.patch(b, p)
			}
		}
	}
}

func (l *linter) patch(b *lintBundle, p *lintNode) {
	for _, key := range []string{"apiVersion", "kind"} {
		if p.get(key).str() == "" {
			l.in("compare-patch", b, p.at, "a patch without %s matches nothing", key)
		}
	}
	if _, err := schema.ParseGroupVersion(p.get("apiVersion").str()); err != nil {
		l.in("compare-patch", b, p.get("apiVersion").pos(), "%v: the agent stops comparing", err)
	}
	for _, n := range p.get("jsonPointers").list() {
		l.pointer(b, n)
	}
	ignores := false
	for _, op := range p.get("operations").list() {
		ignores = ignores || op.get("op").str() == "ignore"
		l.operation(b, op)
	}
	name := p.get("name")
	if ignores && name.str() != "" {
		if _, err := regexp.Compile(name.str()); err != nil {
			l.in("compare-patch", b, name.at, "the name of an ignored object is a regular expression, and this is none: %v", err)
		}
	}
	l.patchMeets(b, p, ignores)
}

// pointer: RFC 6901.
func (l *linter) pointer(b *lintBundle, n *lintNode) {
	switch bad := regexp.MustCompile(`~([^01]|$)`); {
	case !strings.HasPrefix(n.str(), "/"):
		l.in("compare-patch", b, n.pos(), "%q is no JSON pointer: it begins with /, and / in a name is written ~1", n.str())
	case bad.MatchString(n.str()):
		l.in("compare-patch", b, n.pos(), "%q is no JSON pointer: ~ is followed by 0 (for ~) or 1 (for /)", n.str())
	}
}

func (l *linter) operation(b *lintBundle, op *lintNode) {
	known := []string{"remove", "ignore", "add", "replace", "test"}
	switch what := op.get("op").str(); {
	case !slices.Contains(known, what):
		l.in("compare-patch", b, op.at, "there is no operation %q%s", what, didYouMean(what, known))
	case what == "ignore":
		if n := op.get("path"); n.str() != "" {
			l.in("compare-patch", b, n.at, "ignore leaves out the whole object, and looks at no path: did you mean remove?")
		}
	case op.get("path").str() == "":
		l.in("compare-patch", b, op.at, "%s needs a path", what)
	default:
		l.pointer(b, op.get("path"))
	}
}

// patchMeets: in a bundle of plain manifests all its objects are known.
func (l *linter) patchMeets(b *lintBundle, p *lintNode, pattern bool) {
	kind, name := p.get("kind").str(), p.get("name").str()
	if !b.raw() && len(b.built) != 1 || len(b.objects) == 0 || kind == "" {
		return
	}
	re, err := regexp.Compile(name)
	for _, o := range b.objects {
		if o.kind == kind && o.apiVersion == p.get("apiVersion").str() && (name == "" || name == o.name || pattern && err == nil && re.MatchString(o.name)) {
			return
		}
	}
	l.in("compare-patch-unused", b, p.at, "the bundle has no %s %s of %s", kind, name, p.get("apiVersion").str())
}
