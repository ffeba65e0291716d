package console

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/secret"
)

var rewrite = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	// Anyone who runs the tests may live where … takes two columns.
	runewidth.DefaultCondition.EastAsianWidth = false
	os.Exit(m.Run())
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update")
	assert.Equal(t, string(want), got)
}

// captured is a Console whose output is kept.
type captured struct {
	*Console
	talk, data *bytes.Buffer
}

func capture(width int, secrets ...string) captured {
	c := captured{talk: &bytes.Buffer{}, data: &bytes.Buffer{}}
	r := &secret.Redactor{}
	for _, s := range secrets {
		r.Add(secret.New(s))
	}
	c.Console = &Console{Talk: redacting{c.talk, r}, Data: redacting{c.data, r}, Redact: r}
	if width > 0 {
		c.Console.data.size = func() (int, int) { return width, 24 }
	}
	return c
}
