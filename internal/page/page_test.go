package page_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/page"
)

var update = flag.Bool("update", false, "write the golden files, and the picture of the README")

func written(t testing.TB, p *page.Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.Write(&b))
	return b.String()
}

func TestGolden(t *testing.T) {
	html := written(t, troubled())
	if *update {
		require.NoError(t, os.WriteFile("testdata/troubled.html", []byte(html), 0o600))
	}
	want, err := os.ReadFile("testdata/troubled.html")
	require.NoError(t, err)
	assert.Equal(t, string(want), html, "go test ./internal/page -update")
	assert.Equal(t, html, written(t, troubled()), "equal pages give equal bytes")
	assert.NotContains(t, html, "ZgotmplZ", "every value is of a kind that its place allows")
	assert.NotContains(t, html, "<script")
	assert.Less(t, strings.Index(html, "What is wrong"), strings.Index(html, `id="cluster"`))
}
