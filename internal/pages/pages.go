package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Block is a block of code on a page.
type Block struct {
	Page   string // README.md, docs/hub.md
	Line   int    // of its first line of text, from 1
	Kind   string // what stands behind the fence; "indented" without one
	Output string // what the comment before it names, if there is one
	Text   string // without fences and indentation
	Made   bool   // it stands between <!-- x --> and <!-- end of x -->, which a test writes
}

// Typed says whether the output is that of a command that sim/lab/e2e.TestPages types.
func (b Block) Typed() bool {
	return strings.HasPrefix(b.Output, "go tool mage ") || strings.HasPrefix(b.Output, "kubectl ")
}

// Root is the repository's root.
func Root(t testing.TB) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("nobody knows where the source is")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// All returns the blocks of README and of all pages.
func All(t testing.TB) []Block {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(Root(t), "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages", err)
	}
	blocks := Page(t, "README.md")
	for _, page := range pages {
		blocks = append(blocks, Page(t, "docs/"+filepath.Base(page))...)
	}
	return blocks
}

var (
	outputMark = regexp.MustCompile(`^ *<!-- output: (.+) -->$`)
	endMark    = regexp.MustCompile(`^<!-- (?:end of |/)(\S+) -->$`)
)

// Page returns the blocks of one page.
func Page(t testing.TB, page string) []Block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), page))
	if err != nil {
		t.Fatal(err)
	}
	return parse(page, string(text))
}

func parse(page, text string) []Block {
	var blocks []Block
	output := ""
	lines := strings.Split(text, "\n")
	for at := 0; at < len(lines); at++ {
		line := lines[at]
		switch {
		case outputMark.MatchString(line):
			output = outputMark.FindStringSubmatch(line)[1]
			continue
		case strings.HasPrefix(line, "```"):
			end := at + 1 + slices.Index(lines[at+1:], "```")
			blocks = append(blocks, Block{Page: page, Line: at + 2, Kind: line[3:], Output: output, Text: unindent(lines[at+1:end], "")})
			at = end
		case strings.HasPrefix(line, indent):
			end := at + 1
			for end < len(lines) && (strings.HasPrefix(lines[end], indent) || lines[end] == "" && strings.HasPrefix(lines[min(end+1, len(lines)-1)], indent)) {
				end++
			}
			blocks = append(blocks, Block{Page: page, Line: at + 1, Kind: "indented", Output: output, Text: unindent(lines[at:end], indent)})
			at = end - 1
		case endMark.MatchString(line):
			begin := slices.Index(lines, "<!-- "+endMark.FindStringSubmatch(line)[1]+" -->")
			for i := range blocks {
				blocks[i].Made = blocks[i].Made || begin >= 0 && blocks[i].Line > begin
			}
		}
		if line != "" {
			output = ""
		}
	}
	return blocks
}

const indent = "    "

func unindent(lines []string, indent string) string {
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(strings.TrimPrefix(line, indent) + "\n")
	}
	return out.String()
}

// Compare compares the output of that name on a page with what a command said, or writes it into the page.
func Compare(t testing.TB, page, name, said string, update bool) {
	t.Helper()
	blocks := Page(t, page)
	at := slices.IndexFunc(blocks, func(b Block) bool { return b.Output == name })
	switch {
	case at < 0:
		t.Errorf("%s has no block after <!-- output: %s -->", page, name)
	case blocks[at].Shows(said):
	case update:
		if err := blocks[at].write(Root(t), said); err != nil {
			t.Error(err)
		}
	default:
		t.Errorf("%s:%d does not show this output; -update writes it:\n%s\nbut\n%s", page, blocks[at].Line, said, blocks[at].Text)
	}
}

// write replaces the text of the block.
func (b Block) write(root, text string) error {
	file := filepath.Join(root, b.Page)
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines, before := strings.Split(string(page), "\n"), ""
	if b.Kind == "indented" {
		before = indent
	}
	var wanted []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		wanted = append(wanted, strings.TrimRight(before+line, " "))
	}
	first := b.Line - 1
	lines = slices.Replace(lines, first, first+strings.Count(b.Text, "\n"), wanted...)
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644) //nolint:gosec // a page is for everybody
}

var (
	// varies is what differs from run to run: days, times, identities, sizes of what is compressed or counted.
	varies = regexp.MustCompile(strings.Join([]string{
		`\b\d{4}-\d\d-\d\d\b`, `\b\d\d:\d\d(:\d\d)?\b`, `\b(\d+h)?(\d+m)?\d+(\.\d+)? ?m?s\b`,
		`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`, `SHA256:[A-Za-z0-9+/]{43}`, `\b[0-9a-f]{12,}\b`, `-\d{9,}\b`, `\bVM \d+`,
		`\b\d+\.\d [KM]iB\b`, `\b\d+ (keys|objects|kinds)\b`, `\brevision \d+`,
	}, "|"))
	columns = regexp.MustCompile(`[ ─]{2,}|(?m: +$)`)
)

// plain is a text without what varies. A command names itself as it was started.
func plain(text string) string {
	text = columns.ReplaceAllString(varies.ReplaceAllString(text, "#"), " ")
	return inOrder(strings.ReplaceAll(text, "go tool mage ", "homelab "))
}

// inOrder sorts the lines of steps, which begin with a time: steps go on at the same time.
func inOrder(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for at := 0; at < len(lines); at++ {
		end := at
		for end < len(lines) && strings.HasPrefix(lines[end], "# ") {
			end++
		}
		slices.Sort(lines[at:end])
		at = max(at, end-1)
	}
	return strings.Join(lines, "")
}

// Shows says whether an output has the lines of the block.
func (b Block) Shows(said string) bool {
	var want strings.Builder
	want.WriteString("(?m)^")
	for line := range strings.Lines(plain(b.Text)) {
		line = strings.TrimRight(line, " \n")
		if strings.TrimSpace(line) == "…" {
			want.WriteString(`(?:.*\n)*?`)
			continue
		}
		want.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `.*`) + ` ?\n`)
	}
	return regexp.MustCompile(want.String()).MatchString(plain(said) + "\n")
}
