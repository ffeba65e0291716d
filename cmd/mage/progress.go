package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// bar says how far a compilation is: on a terminal in one line that changes, elsewhere in a line now and then.
type bar struct {
	first    bool // nothing was compiled in this folder before
	terminal bool
	begin    time.Time

	mu       sync.Mutex // two goroutines read go's messages, one after the other
	last     time.Time
	modules  int
	shown    bool
	of, done int
}

const (
	fewest = 30 // packages; fewer are compiled within seconds and need no message
	width  = 30

	columns = 79 // of a terminal
)

func (b *bar) start() {
	b.begin = time.Now()
	b.last = b.begin
	if st, err := os.Stderr.Stat(); err == nil {
		b.terminal = st.Mode()&os.ModeCharDevice != 0
	}
	if b.first {
		printLine("homelab: the first command in this folder compiles homelab from source: about two minutes on two processors; later ones begin at once.")
	}
}

// download is called for each module that go fetches.
func (b *bar) download(module string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.modules++
	if b.isDue() {
		b.show("fetching module " + strconv.Itoa(b.modules) + ": " + module)
	}
}

// compile begins the compilation of so many packages.
func (b *bar) compile(stale, all int) {
	b.of = stale
	if stale >= fewest {
		b.show("compiling " + strconv.Itoa(stale) + " of " + strconv.Itoa(all) + " packages")
	}
}

// advance is called for each package.
func (b *bar) advance(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = min(b.done+1, b.of)
	if b.of < fewest || !b.isDue() {
		return
	}
	part := b.done * width / b.of
	text := "[" + strings.Repeat("#", part) + strings.Repeat(".", width-part) + "] " +
		strconv.Itoa(b.done) + " of " + strconv.Itoa(b.of) + " packages" + b.rest() + "  "
	if b.terminal {
		name = ending(name, columns-len(text))
	}
	b.show(text + name)
}

// ending is what fits of a package's path: its end, which tells it from others.
func ending(path string, room int) string {
	const dots = "..."
	if len(path) <= room {
		return path
	}
	return dots + path[len(path)-max(0, room-len(dots)):]
}

// rest guesses how long it takes, from the pace so far: not before a quarter is done, since the first
// packages, which wait for one another, would make a minute seem to be eight.
func (b *bar) rest() string {
	if 4*b.done < max(1, b.of) {
		return ""
	}
	left := time.Since(b.begin) * time.Duration(b.of-b.done) / time.Duration(b.done)
	return ", about " + left.Round(time.Second).String() + " left"
}

func (b *bar) isDue() bool {
	every := 10 * time.Second
	if b.terminal {
		every = 100 * time.Millisecond
	}
	if time.Since(b.last) < every {
		return false
	}
	b.last = time.Now()
	return true
}

// show shows a line, on a terminal instead of the one before.
func (b *bar) show(text string) {
	if !b.terminal {
		printLine("homelab: " + text)
		return
	}
	if len(text) > columns {
		text = text[:columns]
	}
	b.shown = true
	_, _ = os.Stderr.WriteString("\r\x1b[K" + text)
}

// end leaves a line about the linker, which has no progress.
func (b *bar) end() {
	if b.terminal && b.shown {
		_, _ = os.Stderr.WriteString("\r\x1b[K")
	}
	if b.of >= fewest {
		printLine("homelab: " + strconv.Itoa(b.of) + " packages compiled in " + time.Since(b.begin).Round(time.Second).String() + "; linking")
	}
}

// compile compiles packages with what they import. Go prints the name of each when it begins, and errors.
func (f folder) compile(b *bar, imports []string) error {
	cmd := f.compiler(f.gocmd, append([]string{"build", "-v"}, imports...)...)
	cmd.Stderr = nil
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(said); lines.Scan(); {
		text := lines.Text()
		if module, ok := strings.CutPrefix(text, "go: downloading "); ok {
			b.download(module)
			continue
		}
		if text == "" || strings.ContainsAny(text, " \t") {
			b.printMessage(text)
			continue
		}
		b.advance(text)
	}
	return cmd.Wait()
}

// printMessage shows a message of the compiler.
func (b *bar) printMessage(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.terminal && b.shown {
		_, _ = os.Stderr.WriteString("\r\x1b[K")
	}
	printLine(text)
}

const waiting = "homelab: another command compiles this folder's magefile; waiting for it"
