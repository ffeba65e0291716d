// Ansi2svg turns what a terminal shows into a picture: text with SGR colours, as
// "tmux capture-pane -e -p" prints it, into SVG. Several files become the frames of
// a film that starts again at its end.
//
//	ansi2svg -title 'go tool mage cluster:up' frame*.txt > up.svg
package main

import (
	"flag"
	"fmt"
	"html"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
)

// The size of a character cell, in pixels, and the frame around all.
const (
	cellWidth, cellHeight = 8.4, 18
	margin, bar           = 14, 30
)

func main() {
	title := flag.String("title", "", "what is written on the window's bar")
	delay := flag.Duration("delay", time.Second, "how long a frame is shown")
	flag.Parse()
	var frames []string
	for _, path := range flag.Args() {
		b, err := os.ReadFile(path)
		if err != nil {
			log.Fatal(err)
		}
		frames = append(frames, string(b))
	}
	if len(frames) == 0 {
		b, err := io.ReadAll(os.Stdin)
		if err != nil {
			log.Fatal(err)
		}
		frames = []string{string(b)}
	}
	if err := draw(os.Stdout, *title, *delay, frames); err != nil {
		log.Fatal(err)
	}
}

// draw writes the picture, or the film.
func draw(to io.Writer, title string, delay time.Duration, frames []string) error {
	columns, lines, body := 40, 0, strings.Builder{}
	total := time.Duration(len(frames)+5) * delay // the last is shown for longer
	for i, f := range frames {
		screen := parse(f)
		lines = max(lines, len(screen))
		fmt.Fprintf(&body, "<g class=\"frame\" style=\"animation-name:f%d\">\n", i)
		for y, line := range screen {
			columns = max(columns, drawLine(&body, line, y))
		}
		body.WriteString("</g>\n")
	}
	width := float64(columns)*cellWidth + 2*margin
	height := lines*cellHeight + bar + margin
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" font-family="ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace" font-size="14">
<title>%s</title>
<style>text{white-space:pre;fill:#d5dae2}.b{font-weight:bold}.d{opacity:.62}%s</style>
<rect width="100%%" height="100%%" rx="9" fill="#16191f"/>
<circle cx="20" cy="16" r="5" fill="#e8635a"/><circle cx="37" cy="16" r="5" fill="#e5b94e"/><circle cx="54" cy="16" r="5" fill="#62b866"/>
<text x="72" y="21" class="d" font-size="13">%s</text>
%s</svg>
`, width, height, width, height, html.EscapeString(title), film(len(frames), delay, total), html.EscapeString(title), body.String())
	_, err := io.WriteString(to, out.String())
	return err
}

// film is the CSS that shows one frame after the other. Anyone who wants no movement is
// shown the last.
func film(frames int, delay, total time.Duration) string {
	if frames < 2 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, ".frame{visibility:hidden;animation-duration:%.2fs;animation-timing-function:step-end;animation-iteration-count:infinite}", total.Seconds())
	for i := range frames {
		from := 100 * float64(i) * delay.Seconds() / total.Seconds()
		fmt.Fprintf(&b, "@keyframes f%d{0%%{visibility:hidden}%.3f%%{visibility:visible}", i, from)
		if i < frames-1 {
			to := 100 * float64(i+1) * delay.Seconds() / total.Seconds()
			fmt.Fprintf(&b, "%.3f%%{visibility:hidden}", to)
		}
		b.WriteString("}")
	}
	b.WriteString("@media(prefers-reduced-motion){.frame{animation:none}.frame:last-of-type{visibility:visible}}")
	return b.String()
}

// drawLine writes the spans of a line and returns how many columns it takes. Each
// span has its length, so that columns are straight in every font.
func drawLine(b *strings.Builder, line []span, y int) int {
	x := 0
	for _, s := range line {
		w := runewidth.StringWidth(s.text)
		if strings.TrimSpace(s.text) != "" {
			fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs"`,
				margin+float64(x)*cellWidth, bar+13+y*cellHeight, float64(w)*cellWidth)
			if class := strings.TrimSpace(s.style.class()); class != "" {
				fmt.Fprintf(b, ` class="%s"`, class)
			}
			if s.style.colour != "" {
				fmt.Fprintf(b, ` style="fill:%s"`, s.style.colour)
			}
			fmt.Fprintf(b, ">%s</text>\n", html.EscapeString(s.text))
		}
		x += w
	}
	return x
}
