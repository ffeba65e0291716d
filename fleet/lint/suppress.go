package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// errLintIgnore matches a comment that suppresses findings:
//
//	# fleet-lint: ignore=RULE[,RULE…] reason
//	# fleet-lint: ignore-file=RULE[,RULE…] reason
var lintIgnoreComment = regexp.MustCompile(`#\s*fleet-lint:\s*(ignore|ignore-file)=([A-Za-z0-9_,-]*)[ \t]*(.*)`)

// lintIgnore is such a comment.
type lintIgnore struct {
	line   int // line that it applies to: its own, or the next if it is alone on its line; 0: the file
	own    int
	rules  []string
	reason string
}

func (f *lintFile) ignores() (out []lintIgnore) {
	if f == nil || !strings.Contains(string(f.data), "fleet-lint:") {
		return nil
	}
	line := 0
	for text := range strings.Lines(string(f.data)) {
		line++
		m := lintIgnoreComment.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		g := lintIgnore{line: line, own: line, rules: strings.Split(m[2], ","), reason: strings.TrimSpace(m[3])}
		switch {
		case m[1] == "ignore-file":
			g.line = 0
		case strings.HasPrefix(strings.TrimSpace(text), "#"):
			g.line = line + 1
		}
		out = append(out, g)
	}
	return out
}

// applySuppressions removes the findings that comments suppress, and adds mistakes in the comments.
func (l *linter) applySuppressions() (kept []Finding, suppressed int) {
	byFile := map[string][]lintIgnore{}
	for name, f := range l.tree.files {
		if ignores := f.ignores(); ignores != nil {
			byFile[name] = ignores
			l.checkIgnores(name, ignores)
		}
	}
	for _, f := range l.found {
		if slices.ContainsFunc(byFile[f.File], func(g lintIgnore) bool {
			return (g.line == 0 || g.line == f.Line) && slices.Contains(g.rules, f.Rule) && g.reason != ""
		}) {
			suppressed++
			continue
		}
		kept = append(kept, f)
	}
	return kept, suppressed
}

func (l *linter) checkIgnores(file string, ignores []lintIgnore) {
	for _, g := range ignores {
		if g.reason == "" {
			l.add("lint-ignore", file, yamlnode.Pos{Line: g.own, Col: 1}, "this comment gives no reason, so it does not count")
		}
		for _, rule := range g.rules {
			if _, ok := l.rules[rule]; !ok {
				l.add("lint-ignore", file, yamlnode.Pos{Line: g.own, Col: 1}, "there is no rule %q%s", rule, didYouMean(rule, slices.Sorted(maps.Keys(l.rules))))
			}
		}
	}
}

// didYouMean is the end of a message about an unknown name.
func didYouMean(name string, known []string) string {
	if near := suggest.Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
