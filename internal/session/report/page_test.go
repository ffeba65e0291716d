package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files, and the picture of the README")

func written(t testing.TB, p *Page) string {
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
	assert.Equal(t, string(want), html, "go test ./internal/session/report -update")
	assert.Equal(t, html, written(t, troubled()), "equal pages give equal bytes")
	assert.NotContains(t, html, "ZgotmplZ", "every value is of a kind that its place allows")
	assert.NotContains(t, html, "<script")
	assert.Less(t, strings.Index(html, "What is wrong"), strings.Index(html, `id="cluster"`))
}

// A page of a hundred nodes is small enough to be sent by mail.
func TestSizeOfAHundredNodes(t *testing.T) {
	p := large(100)
	assert.LessOrEqual(t, len(written(t, p)), 1<<20)
	for i := range p.Results { // none shares a row
		p.Results[i].Worse = []string{fmt.Sprintf("memory bandwidth %d GB/s is slower than last month: median 2900 GB/s of 10 runs since 2026-11-01 (-13 %%)", 2400+i%9)}
	}
	assert.LessOrEqual(t, len(written(t, p)), 1<<20)
}

// digest identifies a page in its picture.
func digest(html string) string { return fmt.Sprintf("page sha256:%x", sha256.Sum256([]byte(html))) }

// withText adds a comment to a PNG, before its image data.
func withText(t *testing.T, picture []byte, comment string) []byte {
	t.Helper()
	const header = 8 + 25 // the signature, and the chunk IHDR
	require.Greater(t, len(picture), header)
	chunk := append([]byte("tEXtComment\x00"), comment...)
	out := append([]byte{}, picture[:header]...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(chunk)-4)) //nolint:gosec // a short text
	out = append(out, chunk...)
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(chunk))
	return append(out, picture[header:]...)
}

// Whatever a guest, a server or a file says stays text.
func TestEverythingIsEscaped(t *testing.T) {
	for _, evil := range []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, `' onload='x`, `]]></style><svg/onload=x>`, "a\x00b", `{{.Cluster}}`} {
		html := written(t, troubled().Clean(func(string) string { return evil }))
		for _, never := range []string{"<script", "<img", `href="javascript:`, "<svg/onload", ` onload='`, "\x00"} {
			assert.NotContains(t, html, never, evil)
		}
	}
}

// Clean reaches every text of a page, and nothing else.
func TestCleanReachesAll(t *testing.T) {
	p := troubled()
	seen := map[string]bool{}
	same := p.Clean(func(s string) string { seen[s] = true; return s })
	assert.Equal(t, p, same)
	for _, s := range []string{"ml", "wk-gpu4", "node password rejected", "GPU-5c8ad2b1-0001", "jupyterhub/jupyter-teacher", "quota of 6 GPUs", "575.57.08", "104 win11", "k3s-agent.service does not start\n  delete the old password"} {
		found := false
		for text := range seen {
			found = found || strings.Contains(text, s)
		}
		assert.True(t, found, s)
	}
	assert.NotContains(t, written(t, p.Clean(func(s string) string { return strings.ReplaceAll(s, "duplicate hostname", "[secret]") })), "duplicate hostname")
}

// A page of a simulated cluster says so before its numbers; one of a real cluster has no such line.
func TestSimulated(t *testing.T) {
	p := troubled()
	assert.NotContains(t, written(t, p), `class="simulated`)
	p.Simulated = "No GPU computed <anything>."
	assert.Regexp(t, `(?s)</h1>.*<p class="simulated waiting">No GPU computed &lt;anything&gt;.</p>.*class="outcome".*class="tiles"`, written(t, p))
}

// An empty page is one, too.
func TestNothing(t *testing.T) {
	html := written(t, &Page{Cluster: "new", Time: at()})
	assert.Contains(t, html, "Nothing is wrong.")
	assert.NotContains(t, html, "<table")
}
