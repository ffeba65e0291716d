package main

import (
	"regexp"
	"strconv"
	"strings"
)

// style is how a span looks. Backgrounds are not drawn.
type style struct {
	bold, faint bool
	colour      string // of CSS; empty for the usual
}

func (s style) class() string {
	return map[bool]string{true: "b"}[s.bold] + " " + map[bool]string{true: "d"}[s.faint]
}

type span struct {
	text  string
	style style
}

// palette is the sixteen colours, the bright ones last, as they look well on the
// picture's ground.
var palette = [16]string{
	"#565e6b", "#e8635a", "#62b866", "#e5b94e", "#5c9be8", "#bd7fe0", "#47b5c4", "#d5dae2",
	"#7c8595", "#f5857d", "#86d48a", "#f2d07a", "#83b8f5", "#d3a3ee", "#71d2de", "#ffffff",
}

// sequence is an SGR sequence, or another that is left out (ECMA-48, 8.3.117).
var sequence = regexp.MustCompile("\x1b\\[([0-9;]*)m|\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[()].|[\x00-\x08\x0b-\x1f]")

// parse splits a screen into lines of spans; empty lines at the end are dropped.
func parse(screen string) [][]span {
	var lines [][]span
	var now style
	for _, text := range strings.Split(strings.TrimRight(screen, "\n"), "\n") {
		var line []span
		at := 0
		for _, m := range sequence.FindAllStringSubmatchIndex(text, -1) {
			line = append(line, span{text[at:m[0]], now})
			if m[2] >= 0 {
				now = now.apply(text[m[2]:m[3]])
			}
			at = m[1]
		}
		lines = append(lines, append(line, span{text[at:], now}))
	}
	return lines
}

// apply is s changed by the parameters of an SGR sequence.
func (s style) apply(parameters string) style {
	for _, p := range strings.Split(parameters, ";") {
		n, _ := strconv.Atoi(p) // an empty one is 0
		switch {
		case n == 0:
			s = style{}
		case n == 1:
			s.bold = true
		case n == 2:
			s.faint = true
		case n == 22:
			s.bold, s.faint = false, false
		case n >= 30 && n < 38:
			s.colour = palette[n-30]
		case n >= 90 && n < 98:
			s.colour = palette[n-90+8]
		case n == 39:
			s.colour = ""
		case n == 38 || n == 48: // a colour of many: not drawn
			return s
		}
	}
	return s
}
