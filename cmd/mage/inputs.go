package main

import (
	"bufio"
	"errors"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// What a program was compiled from is kept beside it: a line for the toolchain and its settings, then a line for
// each file outside of Go's module cache, with its size and time, and one for each folder, with the names in it.

// packages is what go says about the packages of a magefile.
type packages struct {
	inputs     []string // the state of each file and folder
	imports    []string
	stale, all int
	embedded   string // the last folder of embedded files
}

const (
	sources   = "/*.go"               // after a folder: the names of its Go files
	names     = "/*"                  // after a folder: the names in it
	generated = "mage_output_file.go" // which Mage writes beside the magefile while it compiles
)

// template prints, for each package: that it has to be compiled; its folder and files if they may change; the imports of the magefile.
const template = `P {{.Stale}}
{{- if not .DepOnly}}{{range .Imports}}
I {{.}}{{end}}{{end}}
{{- if and (not .Standard) (or (not .Module) .Module.Main (and .Module.Replace (not .Module.Replace.Version)))}}{{$d := .Dir}}
D {{$d}}{{range .GoFiles}}
F {{$d}}/{{.}}{{end}}{{range .CgoFiles}}
F {{$d}}/{{.}}{{end}}{{range .HFiles}}
F {{$d}}/{{.}}{{end}}{{range .CFiles}}
F {{$d}}/{{.}}{{end}}{{range .SFiles}}
F {{$d}}/{{.}}{{end}}{{range .EmbedFiles}}
E {{$d}}/{{.}}{{end}}{{end}}`

// list asks go for the packages of the magefile; go fetches their modules.
func (f folder) list(b *bar) (p packages, err error) {
	for _, path := range f.modules() {
		p.inputs = append(p.inputs, state(path))
	}
	own := magefiles(f.dir)
	if len(own) == 0 {
		return p, nil // Mage says so
	}
	cmd := f.compiler(f.gocmd, append([]string{"list", "-e", "-deps", "-f", template}, own...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return p, err
	}
	cmd.Stderr = nil
	said, err := cmd.StderrPipe()
	if err != nil {
		return p, err
	}
	if err := cmd.Start(); err != nil {
		return p, err
	}
	var trouble []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(said)
		for lines.Scan() {
			if module, ok := strings.CutPrefix(lines.Text(), "go: downloading "); ok {
				b.download(module)
			} else {
				trouble = append(trouble, lines.Text())
			}
		}
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.add(lines.Text())
	}
	<-done
	if err := cmd.Wait(); err != nil {
		return p, errors.New(strings.Join(append(trouble, err.Error()), "\n"))
	}
	return p, lines.Err()
}

// add reads a line of the template.
func (p *packages) add(line string) {
	kind, value, _ := strings.Cut(line, " ")
	switch kind {
	case "P":
		p.all++
		if value == "true" {
			p.stale++
		}
	case "I":
		p.imports = append(p.imports, value)
	case "D":
		p.inputs = append(p.inputs, state(value+sources))
	case "F":
		p.inputs = append(p.inputs, state(value))
	case "E":
		p.inputs = append(p.inputs, state(value))
		if dir := state(filepath.Dir(value) + names); p.embedded != dir {
			p.embedded, p.inputs = dir, append(p.inputs, dir)
		}
	}
}

// magefiles are the names of the files that Mage compiles: those with its tag, and all in a folder magefiles.
func magefiles(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && name != generated &&
			(filepath.Base(dir) == "magefiles" || tagged(filepath.Join(dir, name))) {
			out = append(out, name)
		}
	}
	return out
}

// tagged reports whether a file has Mage's build tag.
func tagged(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		switch text := strings.TrimSpace(lines.Text()); {
		case strings.HasPrefix(text, "//go:build "):
			return strings.Contains(text, "mage") && !strings.Contains(text, "!mage")
		case strings.HasPrefix(text, "package "):
			return false
		}
	}
	return false
}

// inputsFile is the file that says what the program was compiled from.
func (f folder) inputsFile() string { return filepath.Join(f.kept, "inputs") }

// settings is one line about the toolchain and what steers it.
func (f folder) settings() string {
	texts := []string{flags, runtime.Version(), f.gocmd, f.dir, f.findAbove("go.work")}
	for _, name := range []string{
		"GOFLAGS", "GOWORK", "GOTOOLCHAIN", "GOEXPERIMENT", "GOOS", "GOARCH", "GOAMD64", "GOARM64",
		"CGO_ENABLED", "CC", "CGO_CFLAGS", "CGO_LDFLAGS", "GOENV", "GOPATH", "GOMODCACHE",
	} {
		texts = append(texts, os.Getenv(name))
	}
	return strconv.Quote(strings.Join(texts, "\x00"))
}

// findAbove is a file of the magefile's folder or of the nearest one above; without one it is empty.
func (f folder) findAbove(name string) string {
	for dir := f.dir; ; dir = filepath.Dir(dir) {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// modules are the files with the versions of modules and with go's settings.
func (f folder) modules() []string {
	var out []string
	if path := f.findAbove("go.mod"); path != "" {
		out = append(out, path, strings.TrimSuffix(path, "mod")+"sum")
	}
	if path := f.findAbove("go.work"); path != "" {
		out = append(out, path, path+".sum")
	}
	if config, err := os.UserConfigDir(); err == nil {
		out = append(out, filepath.Join(config, "go", "env"))
	}
	return out
}

// remember writes down what the program was compiled from, as it was before the compiler read it.
func (f folder) remember(inputs []string) error {
	text := f.settings() + "\n" + strings.Join(inputs, "\n") + "\n"
	half := f.inputsFile() + ".new"
	if err := os.WriteFile(half, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(half, f.inputsFile())
}

// state is a line about a file, or about the names in a folder, as it is now.
func state(path string) string {
	if dir, ok := strings.CutSuffix(path, sources); ok {
		return listing(dir, ".go") + " " + path
	}
	if dir, ok := strings.CutSuffix(path, names); ok {
		return listing(dir, "") + " " + path
	}
	st, err := os.Stat(path)
	if err != nil {
		return "- " + path
	}
	return strconv.FormatInt(st.Size(), 36) + "." + strconv.FormatInt(st.ModTime().UnixNano(), 36) + " " + path
}

// listing stands for the names in a folder that end so.
func listing(dir, end string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "-"
	}
	var all strings.Builder
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, end) && name != generated {
			all.WriteString(name + "\x00")
		}
	}
	return hash(all.String())
}

// fresh reports whether the program is what compiling it again would give.
func (f folder) fresh() bool {
	text, err := os.ReadFile(f.inputsFile())
	if err != nil || !exists(f.program()) {
		return false
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if lines[0] != f.settings() {
		return false
	}
	for _, was := range lines[1:] {
		_, path, ok := strings.Cut(was, " ")
		if !ok || state(path) != was {
			return false
		}
	}
	return true
}

func hash(text string) string {
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, text)
	return strconv.FormatUint(sum.Sum64(), 36)
}
