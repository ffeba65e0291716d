package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// typed begins a block that a person types: a shell's.
var typed = regexp.MustCompile(`^(\$ )?(go|kubectl|helm|homelab|pvesh|pvesm|pveum|pvesim|qm|ceph|sops|sudo|ssh|mkdir|journalctl|export|for|git|rsync|sftp) |^KUBECONFIG=`)

// isTyped tells a block of commands from one that shows what they print.
func isTyped(text string) bool {
	text = strings.TrimSpace(text)
	return typed.MatchString(text) && (!strings.HasPrefix(text, "$ ") || !strings.Contains(text, "\n"))
}

// compared are the outputs that another test compares, or that none can.
var compared = []struct{ page, first, why string }{
	{"docs/hosts.md", "", "internal/session.TestHosts compares all of the page"},
	{"docs/real-host.md", "$ go tool mage cluster:init", "with answers, which the test's terminal does not echo; internal/session.TestInitInterview"},
}

// TestOutputs finds each block that shows an output, and what compares it.
func TestOutputs(t *testing.T) {
	root, seen := Root(t), map[int]bool{}
	tests := testSources(t, root)
	for _, b := range All(t) {
		switch {
		case b.Typed(): // sim/lab/e2e.TestPages types it
		case strings.HasSuffix(b.Output, "_test.go"):
			asserted, err := os.ReadFile(filepath.Join(root, b.Output))
			require.NoError(t, err, "%s:%d", b.Page, b.Line)
			for _, piece := range strings.FieldsFunc(b.Text, func(r rune) bool { return r == '…' || r == '\n' }) {
				assert.True(t, strings.Contains(string(asserted), strings.TrimSpace(piece)), "%s:%d: %s does not have %q", b.Page, b.Line, b.Output, piece)
			}
		case strings.Contains(b.Output, "/"):
			recorded, err := os.ReadFile(filepath.Join(root, b.Output))
			require.NoError(t, err, "%s:%d", b.Page, b.Line)
			assert.True(t, b.Shows(string(recorded)), "%s:%d does not show what %s has:\n%s", b.Page, b.Line, b.Output, recorded)
		case b.Output != "":
			assert.True(t, strings.Contains(tests, `pages.Compare(t, "`+b.Page+`", "`+b.Output+`"`), "%s:%d: no test compares it", b.Page, b.Line)
		case b.Made, !slices.Contains([]string{"", "text", "indented"}, b.Kind), isTyped(b.Text):
		default:
			at := slices.IndexFunc(compared, func(c struct{ page, first, why string }) bool {
				return c.page == b.Page && strings.HasPrefix(strings.TrimSpace(b.Text), c.first)
			})
			assert.GreaterOrEqual(t, at, 0, "%s:%d: write <!-- output: … --> before this block (internal/pages), or a row in compared:\n%s", b.Page, b.Line, b.Text)
			seen[at] = true
		}
	}
	for at, c := range compared {
		test := regexp.MustCompile(`\.(Test\w+)`).FindStringSubmatch(c.why)
		assert.True(t, test != nil && strings.Contains(tests, "func "+test[1]+"("), c.why)
		assert.True(t, seen[at], "%s has no unmarked block any more that begins with %s", c.page, c.first)
	}
}

// testSources are all tests.
func testSources(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() != filepath.Base(root) && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	}))
	return all.String()
}
