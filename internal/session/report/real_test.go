package report

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/browsertest"
)

// TestRealBrowser opens the page in Chromium, in each look that a reader may have.
func TestRealBrowser(t *testing.T) {
	b := browsertest.Open(t)
	looks := map[string][]byte{}
	for _, x := range []struct {
		name   string
		width  int
		scheme string
	}{{"light", 1280, "light"}, {"dark", 1280, "dark"}, {"narrow", 800, "light"}, {"phone", 390, "light"}} {
		b.View(x.width, x.scheme)
		p := troubled()
		p.Simulated = "This cluster is simulated (proxmox.endpoint: lab): its machines, its GPUs and what runs in pods."
		b.Load(written(t, p))
		assert.Empty(t, b.Complaints(), x.name)
		looks[x.name] = b.Picture(x.width, 4000)
		assert.Empty(t, overlaps(b), x.name)
		assert.Equal(t, x.width, number(b, `document.documentElement.scrollWidth`), "%s: nothing is wider than the window", x.name)
	}
	b.View(1280, "light")
	assert.NotEqual(t, looks["light"], looks["dark"])
	assert.Greater(t, number(b, `document.querySelectorAll("svg rect").length`), 40, "the timeline is drawn")
	assert.Zero(t, number(b, `[...document.querySelectorAll(".timeline rect")].filter(r => r.getBoundingClientRect().width < 1).length`), "each bar can be seen")
	assert.Zero(t, number(b, `document.querySelectorAll("h1").length - 1`))
	b.Eval(`document.querySelector("#run h2").style.marginBottom = "-60px"`, nil)
	assert.NotEmpty(t, overlaps(b), "the test finds what lies on something else")
	b.Load(written(t, troubled()))
	printed(t, b)
	if dir := os.Getenv("HOMELAB_PICTURES"); dir != "" { // to look at
		for name, data := range looks {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o600))
		}
	}
}

// printed makes a PDF: no sheet is cut off on its right.
func printed(t *testing.T, b *browsertest.Browser) {
	b.Do("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
	b.Do("Emulation.setDeviceMetricsOverride", map[string]any{"width": 695, "height": 1000, "deviceScaleFactor": 1, "mobile": false}, nil) // A4 without margins, at 96 dpi
	assert.Equal(t, 695, number(b, `document.documentElement.scrollWidth`))
	assert.Equal(t, "rgb(255, 255, 255)", text(b, `getComputedStyle(document.documentElement).backgroundColor`))
	var pdf struct{ Data string }
	b.Do("Page.printToPDF", map[string]any{"preferCSSPageSize": true, "printBackground": true}, &pdf)
	data, err := base64.StdEncoding.DecodeString(pdf.Data)
	require.NoError(t, err)
	assert.True(t, bytes.HasPrefix(data, []byte("%PDF-")))
	if dir := os.Getenv("HOMELAB_PICTURES"); dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "printed.pdf"), data, 0o600))
	}
}

// overlaps lists texts of the page that lie on each other.
func overlaps(b *browsertest.Browser) (out []string) {
	b.Eval(`(() => {
		const boxes = [], found = []
		for (const e of document.querySelectorAll("h1,h2,h3,h4 b,p,dt,dd,td,th,.chip,.label,.number,.lane>span,.lane text,.gpu,.vmid,.legend li"))
			for (const r of e.getClientRects()) if (r.width > 1 && r.height > 1) boxes.push([e, r])
		for (let i = 0; i < boxes.length; i++) for (let k = i + 1; k < boxes.length; k++) {
			const [a, r] = boxes[i], [c, s] = boxes[k]
			if (a.contains(c) || c.contains(a) || a.closest("svg svg") || c.closest("svg svg")) continue
			const w = Math.min(r.right, s.right) - Math.max(r.left, s.left), h = Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top)
			if (w > 1.5 && h > 1.5) found.push(a.textContent + " | " + c.textContent)
		}
		return found
	})()`, &out)
	return out
}

func number(b *browsertest.Browser, js string) (n int) {
	b.Eval(js, &n)
	return n
}

func text(b *browsertest.Browser, js string) (s string) {
	b.Eval(js, &s)
	return s
}

// BenchmarkPage measures a page of 100 nodes with 800 GPUs and 800 steps: to write it, and to
// have it drawn by a browser, from its address to the first frame with all of it.
func BenchmarkPage(b *testing.B) {
	html := written(b, large(100))
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			written(b, large(100))
		}
		b.ReportMetric(float64(len(html))/1024, "KiB")
	})
	b.Run("draw", func(b *testing.B) {
		br := browsertest.Open(b)
		br.View(1280, "light")
		br.Load(html) // the first one starts the browser's processes
		var sum, n float64
		for b.Loop() {
			sum, n = sum+br.Load(html), n+1
		}
		b.ReportMetric(sum/n, "ms/drawn")
	})
}

// size is that of the README's picture.
const pictureWidth, pictureHeight = 1280, 1330

// TestPicture: the README's picture is that of the page in testdata. -update draws it again.
func TestPicture(t *testing.T) {
	const file = "../../../docs/pictures/report.png"
	html := written(t, troubled())
	if *update {
		b := browsertest.Open(t)
		b.View(pictureWidth, "light")
		b.Load(html)
		require.NoError(t, os.WriteFile(file, withText(t, b.Picture(pictureWidth, pictureHeight), digest(html)), 0o600))
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	picture, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	assert.Equal(t, pictureWidth, picture.Bounds().Dx())
	assert.Contains(t, string(data), digest(html), "the picture is of another page: go test ./internal/session/report -update, where chromium is installed")
}
