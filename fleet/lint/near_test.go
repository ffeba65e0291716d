package lint

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// nearby makes the repositories that differ from m in one line: without it, or with
// a list for its value. Files whose text is in seen are left as they are.
func nearby(m fstest.MapFS, seen map[string]bool, use func(name string, near fstest.MapFS)) {
	for _, file := range slices.Sorted(maps.Keys(m)) {
		text := string(m[file].Data)
		if seen[text] {
			continue
		}
		seen[text] = true
		lines := strings.SplitAfter(text, "\n")
		for i, line := range lines {
			if strings.TrimSpace(line) == "" {
				continue
			}
			change := func(what string, to ...string) {
				near := maps.Clone(m)
				near[file] = &fstest.MapFile{Data: []byte(strings.Join(slices.Concat(lines[:i], to, lines[i+1:]), ""))}
				use(fmt.Sprintf("%s:%d %s", file, i+1, what), near)
			}
			change("without " + strings.TrimSpace(line))
			if key, value, ok := strings.Cut(line, ": "); ok && strings.TrimSpace(value) != "" {
				change("with "+strings.TrimSpace(key)+": [7]", key+": [7]\n")
			}
		}
	}
}

// inMemory is the fixture's bad repository, without what is not a file.
func (f lintFixture) inMemory(t *testing.T) fstest.MapFS {
	dir, m := os.DirFS(filepath.Join(f.dir, "bad")), fstest.MapFS{}
	require.NoError(t, fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := fs.ReadFile(dir, p)
		m[p] = &fstest.MapFile{Data: data}
		return err
	}))
	return m
}

// One line of a fixture less, or another value in it, and these findings come (+) and
// go (-), each at its place, and no others: the file "near" of each rule lists them.
func TestLintNear(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range Rules() {
		if rule.ID == "chart-unreachable" { // in another package's words
			continue
		}
		t.Run(rule.ID, func(t *testing.T) {
			f := lintFixtureOf(t, rule)
			m := f.inMemory(t)
			before := lintAll(t, m, f.opt)
			var all strings.Builder
			nearby(m, seen, func(name string, near fstest.MapFS) {
				after := lintAll(t, near, f.opt)
				heading := name + "\n"
				tell := func(mark string, in, notIn []Finding) {
					for _, found := range in {
						if !slices.Contains(notIn, found) {
							fmt.Fprintf(&all, "%s  %s %s\n", heading, mark, found)
							heading = ""
						}
					}
				}
				tell("-", before, after)
				tell("+", after, before)
			})
			want := filepath.Join(f.dir, "near")
			if *update {
				require.NoError(t, os.WriteFile(want, []byte(all.String()), 0o644))
			}
			golden, err := os.ReadFile(want)
			require.NoError(t, err)
			require.Equal(t, string(golden), all.String())
		})
	}
}
