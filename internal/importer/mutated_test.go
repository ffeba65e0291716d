package importer

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/share"
)

// TestMutatedInputs: lines that are lost, doubled, swapped between files, or have other values, change what is told, and
// never the promise that each setting is told.
func TestMutatedInputs(t *testing.T) {
	var lines, names []string
	texts := map[string][]string{}
	err := filepath.WalkDir("testdata", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, "testdata/want") || strings.HasPrefix(path, "testdata/fuzz") {
			return err
		}
		data, err := os.ReadFile(path)
		names, texts[path] = append(names, path), strings.SplitAfter(string(data), "\n")
		lines = append(lines, texts[path]...)
		return err
	})
	require.NoError(t, err)
	values := []string{`""`, "null", "[]", "{}", "-1", "99999999999", `"10.0.0.1/33"`, `"::1"`, `"a: b # c"`, `"{{ x }}"`, `"${x}"`, `["", null]`, "true", `"\u2028"`, `"x\ny"`}
	c := share.Start(t, "mutated inputs")
	for seed := range 300 {
		if !c.Next() {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(seed), 7)) //nolint:gosec // a test
		name := names[r.IntN(len(names))]
		text := append([]string(nil), texts[name]...)
		for range 1 + r.IntN(6) {
			at := r.IntN(len(text))
			switch r.IntN(4) {
			case 0:
				text = append(text[:at], text[at+1:]...)
			case 1:
				text = append(text, lines[r.IntN(len(lines))])
			case 2:
				text[at] = lines[r.IntN(len(lines))]
			default:
				for _, sep := range []string{"= ", ": "} {
					if before, _, ok := strings.Cut(text[at], sep); ok {
						text[at] = before + sep + values[r.IntN(len(values))] + "\n"
						break
					}
				}
			}
			if len(text) == 0 {
				text = []string{"\n"}
			}
		}
		base := filepath.Base(name)
		if strings.Contains(name, "group_vars") {
			base = "group_vars/" + base
		}
		survives(t, base, []byte(strings.Join(text, "")))
		require.False(t, t.Failed(), "case %d, of %s", seed, name)
	}
}
