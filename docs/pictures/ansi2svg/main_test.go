package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("update", false, "rewrite the golden file")

const screen = "\x1b[32m✓\x1b[39m cp1   \x1b[2m1m02s · vm <b>\x1b[0m\n" +
	"\x1b[1;33mneeds a restart\x1b[22m: 日本 & more\x1b(B\x1b[0m\x1b[K\n\n"

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestPicture(t *testing.T) {
	var b strings.Builder
	require.NoError(t, draw(&b, "a <title>", time.Second, []string{screen}))
	wellFormed(t, b.String())
	if *rewrite {
		require.NoError(t, os.WriteFile("testdata/picture.svg", []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile("testdata/picture.svg")
	require.NoError(t, err, "run the test with -update")
	assert.Equal(t, string(want), b.String())
	assert.NotContains(t, b.String(), "@keyframes")
}

func TestFilm(t *testing.T) {
	var b strings.Builder
	require.NoError(t, draw(&b, "", time.Second, []string{"one", "two", "three"}))
	wellFormed(t, b.String())
	assert.Contains(t, b.String(), "animation-duration:8.00s")
	assert.Contains(t, b.String(), "@keyframes f0{0%{visibility:hidden}0.000%{visibility:visible}12.500%{visibility:hidden}}")
	assert.Contains(t, b.String(), "@keyframes f2{0%{visibility:hidden}25.000%{visibility:visible}}")
}

func TestParse(t *testing.T) {
	assert.Equal(t, [][]span{
		{{"", style{}}, {"✓", style{colour: palette[2]}}, {" cp1   ", style{}}, {"1m02s · vm <b>", style{faint: true}}, {"", style{}}},
		{{"", style{}}, {"needs a restart", style{bold: true, colour: palette[3]}}, {": 日本 & more", style{colour: palette[3]}}, {"", style{colour: palette[3]}}, {"", style{}}, {"", style{}}},
	}, parse(screen))
	for sgr, want := range map[string]style{
		"": {}, "0": {}, "91": {colour: palette[9]}, "1;38;5;31": {bold: true}, "48;2;1;2;3": {}, "1;2;22": {}, "31;39": {},
	} {
		assert.Equal(t, want, style{}.apply(sgr), sgr)
	}
}

func FuzzPicture(f *testing.F) {
	f.Add(screen)
	f.Add("\x1b[38;5;999;1m\x00x\x1b[")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ToValidUTF8(s, "") != s || strings.ContainsAny(s, "\ufffe\uffff") {
			t.Skip("no text")
		}
		var b strings.Builder
		require.NoError(t, draw(&b, "x", time.Second, []string{s, s}))
		wellFormed(t, b.String())
	})
}
