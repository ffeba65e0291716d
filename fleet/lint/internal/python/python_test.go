package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet/lint/internal/python"
)

// Each text of testdata/refused.txt is refused by CPython 3.11, and each of accepted.txt is not
// by 3.11 or, where it says so, by a later one.
func TestCheck(t *testing.T) {
	for name, texts := range map[string][]string{"refused": pieces(t, "refused.txt"), "accepted": pieces(t, "accepted.txt")} {
		require.NotEmpty(t, texts)
		for _, text := range texts {
			fault := python.Check(text)
			if name == "refused" {
				assert.NotNil(t, fault, text)
			} else {
				assert.Nil(t, fault, text)
			}
		}
	}
}

// pieces are divided by lines of dashes.
func pieces(t *testing.T, name string) []string {
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n-----\n")
}

func TestFault(t *testing.T) {
	for text, want := range map[string]python.Fault{
		"x = [1,\n  2\ny = 3\n":   {1, 5, "the bracket [ is never closed"},
		"x = 1)\n":                {1, 6, "this ) closes nothing"},
		"x = (1]\n":               {1, 7, "this ] does not close the ( of line 1"},
		"x = 'a\n":                {1, 5, "a string that does not end: its closing ' is missing"},
		"if x\n    y = 1\n":       {1, 5, `":" is missing after the condition, before the end of the line`},
		"if x:\ny = 1\n":          {2, 1, "an indented block is missing after the condition"},
		"x = 1\n  y = 2\n":        {2, 3, "this line is indented, and nothing above it begins a block"},
		"if x:\n    y\n  z\n":     {3, 3, "this indentation is that of no line above"},
		"if x:\n\ty\n        z\n": {3, 1, "tabs and spaces are mixed in the indentation"},
		"set the users here\n":    {1, 5, "the statement should end before a name: an operator or a comma is missing, or this is not Python"},
		"x = {{ .Values.a }}\n":   {1, 8, `a value is missing before "."`},
		"print 'a'\n":             {1, 7, "print is a function: put brackets around what it prints"},
		"c.A.b = {'x': 1 'y': 2}": {1, 17, `"}" is missing or a comma after this entry, before a string`},
		"if a = 1: pass":          {1, 6, `":" is missing after the condition, before "="`},
		"f(a) = 1":                {1, 1, "= assigns to a name, an attribute or an item only; to compare, write =="},
		"x = “a”":                 {1, 5, `a character that Python does not know: "“"`},
		"return 1":                {1, 1, `"return" outside of a function`},
		"x = 'C:\\Users'":         {1, 8, `\U begins a character's number, and none follows: double the backslash`},
		"a = 1\r\nb = (\r\n":      {2, 5, "the bracket ( is never closed"},
	} {
		fault := python.Check(text)
		if assert.NotNil(t, fault, text) {
			assert.Equal(t, want, *fault, text)
		}
	}
}

// Nothing is said of the Python in this repository, which runs.
func TestCheckRunning(t *testing.T) {
	files := 0
	require.NoError(t, filepath.WalkDir("../../../..", func(name string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".py" {
			return err
		}
		files++
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Nil(t, python.Check(string(data)), name)
		return nil
	}))
	require.Greater(t, files, 5)
}

// A text that only exists to exhaust a reader ends it, without a fault that may not be one.
func TestCheckDeep(t *testing.T) {
	for _, text := range []string{
		"x = " + strings.Repeat("lambda: ", 100_000) + "1", "x = " + strings.Repeat("-", 1<<20) + "1", "x = " + strings.Repeat("not ", 1<<18) + "1",
		"x = " + strings.Repeat("1 if 1 else ", 1<<16) + "1", strings.Repeat("f'{", 1<<18), "x = f'{" + strings.Repeat("\n", 1<<20) + "}'",
	} {
		python.Check(text)
	}
	assert.NotNil(t, python.Check("x = "+strings.Repeat("(", 201)+strings.Repeat(")", 201)), "Python has this limit")
}

func FuzzCheck(f *testing.F) {
	for _, text := range []string{"x = f'{a!r:>{w}}'\n", "match x:\n  case [1, *_]: pass\n", "with (a as b, c): pass", "if x:\n\ty\n", "\\\n", "'\\N{"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if fault := python.Check(text); fault != nil {
			require.Positive(t, fault.Line)
			require.Positive(t, fault.Col)
		}
	})
}
