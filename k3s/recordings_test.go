package k3s_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/k3s"
)

// recorded is the journal of a K3s in a recording of the real thing: testdata/real says how
// they are written.
type recorded struct {
	file, title string   // of a K3s: the machine, its role and what is special
	journal     []string // what it logged, without what it always logs
	end         string   // "runs on", or "exit N"
}

func recordings(t testing.TB) []recorded {
	t.Helper()
	files, err := filepath.Glob("testdata/real/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var out []recorded
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for part := range strings.SplitSeq("\n"+string(text), "\n\n") {
			title, rest, _ := strings.Cut(strings.TrimSpace(part), "\n")
			if !strings.HasPrefix(title, "@ ") {
				continue
			}
			lines := strings.Split(strings.TrimSpace(rest), "\n")
			i := slices.IndexFunc(lines, func(line string) bool { return line == "runs on" || strings.HasPrefix(line, "exit ") })
			require.GreaterOrEqual(t, i, 0, "%s: %s does not say how it ended", file, title)
			out = append(out, recorded{filepath.Base(file), title[2:], lines[:i], lines[i]})
		}
	}
	return out
}

// TestDiagnoseTheRealThing shows what is made of each journal of a real K3s.
func TestDiagnoseTheRealThing(t *testing.T) {
	var b bytes.Buffer
	for _, r := range recordings(t) {
		fmt.Fprintf(&b, "%s: %s (%s)\n", r.file, r.title, r.end)
		d, ok := k3s.Diagnose(r.journal)
		switch {
		case !ok:
			fmt.Fprint(&b, "  nothing\n\n")
			continue
		case d.Fatal:
			fmt.Fprintf(&b, "  stops: %s\n\n", d)
		default:
			fmt.Fprintf(&b, "  waits: %s\n\n", d)
		}
		up := slices.ContainsFunc(r.journal, func(line string) bool { return strings.Contains(line, "k3s is up and running") })
		runs := up && r.end == "runs on" && !strings.Contains(r.title, "removed")
		assert.False(t, runs && d.Fatal, "%s: %s runs, and is said to be stopped by %s", r.file, r.title, d.Line)
		assert.Contains(t, r.journal, d.Line)
	}
	golden(t, "diagnoses.txt", b.Bytes())
}

// FuzzDiagnose: whatever is in a journal, the line that a diagnosis rests on is one of this
// machine's, and what others' troubles add changes nothing.
func FuzzDiagnose(f *testing.F) {
	for _, r := range recordings(f) {
		f.Add(strings.Join(r.journal, "\n"))
	}
	f.Add("critical configuration mismatched: \nmismatch between servers")
	f.Fuzz(func(t *testing.T, text string) {
		journal := strings.Split(text, "\n")
		before := slices.Clone(journal)
		d, ok := k3s.Diagnose(journal)
		assert.Equal(t, before, journal, "the journal is only read")
		others := append(slices.Clone(journal), `time="2026-11-23T20:39:16Z" level=error msg="Sending HTTP/1.1 401 response to 10.0.0.22:56322: not authorized"`)
		also, still := k3s.Diagnose(others)
		assert.Equal(t, d, also)
		assert.Equal(t, ok, still)
		if !ok {
			assert.Zero(t, d)
			return
		}
		assert.Contains(t, journal, d.Line)
		assert.NotContains(t, d.Line, `msg="Sending HTTP/`)
		assert.NotEmpty(t, d.Cause)
		assert.False(t, d.Fatal && d.Cure == "", "what does not pass has a cure")
	})
}
