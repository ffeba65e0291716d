package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"regexp"
	"strings"
)

//go:embed page.html
var document string

//go:embed page.css
var styles string

// Write writes the document.
func (p *Page) Write(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"css":   func() template.CSS { return template.CSS(styles) }, //nolint:gosec // our own file
		"words": trimmedLines,
	}).Parse(document)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, viewOf(p)); err != nil {
		return err
	}
	_, err = w.Write(blank.ReplaceAll(b.Bytes(), []byte("\n")))
	return err
}

// blank matches empty lines and margins, most of them the template's own.
var blank = regexp.MustCompile(`\n\s*\n\s*|\n[ \t]+`)

// trimmedLines splits a text into its lines without their margin.
func trimmedLines(s string) []string {
	var out []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}
