package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	anchored = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	markup   = regexp.MustCompile("[`*]|\\[([^]]*)\\]\\([^)]*\\)")
	dropped  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
)

// TestEveryPageIsTwoClicksAway follows the links of the README: each page of docs is at most two
// clicks away, and each link and anchor of the pages, and of CONTRIBUTING, leads somewhere.
func TestEveryPageIsTwoClicksAway(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	links := map[string][]string{}
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md") {
		text := readPage(t, page)
		for _, m := range anchored.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			links[page] = append(links[page], to)
			_, err := os.Stat(to)
			if assert.NoError(t, err, "%s: a link leads nowhere", page) && m[2] != "" && strings.HasSuffix(to, ".md") {
				assert.Contains(t, anchors(readPage(t, to)), m[2], "%s: %s has no such heading", page, to)
			}
		}
	}
	near := slices.Clone(links["../README.md"])
	for _, page := range links["../README.md"] {
		near = append(near, links[page]...)
	}
	for _, page := range pages {
		assert.Contains(t, near, page, "more than two clicks from the README: add it to docs/README.md")
	}
}

// readPage returns a page without its blocks of code.
func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return fenced.ReplaceAllString(string(text), "")
}

// anchors are those that GitHub makes of a page's headings.
func anchors(text string) (out []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := dropped.ReplaceAllString(markup.ReplaceAllString(m[1], "$1"), "")
		out = append(out, strings.ReplaceAll(strings.ToLower(plain), " ", "-"))
	}
	return out
}
