package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// programs are the requests of a script: the programs that it runs.
type programs struct{ dir string }

// Programs makes a folder for the start of a script's PATH, in which each of the named
// programs runs the real one unless a fault prevents it; "NAME=PATH" names the real one. A
// [Refused] one exits with a special status, and an [Outage] kills the script. Other kinds are
// not supported.
func (f *Faults) Programs(t testing.TB, names ...string) string {
	t.Helper()
	p := &programs{dir: t.TempDir()}
	tool := func(name string) string {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, pair := range names {
		name, path, found := strings.Cut(pair, "=")
		if !found {
			path = tool(name)
		}
		script := fmt.Sprintf("#!/bin/sh\necho %[2]s >>%[1]s/calls\nif [ \"$(%[3]s -l <%[1]s/calls)\" -eq \"$(%[4]s %[1]s/at)\" ]; then\n"+
			"\techo '%[2]s: %[5]v' >&2\n\t[ \"$(%[4]s %[1]s/kind)\" = refused ] || kill -9 $PPID\n\texit %[6]d\nfi\nexec %[7]s \"$@\"\n",
			p.dir, name, tool("wc"), tool("cat"), ErrInjected, exitCode, path)
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(script), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.programs = p
	p.set(t, f.kind, 0)
	return p.dir
}

// set resets the count, with a fault at one.
func (p *programs) set(t testing.TB, kind Kind, at int) {
	t.Helper()
	for name, text := range map[string]string{"at": strconv.Itoa(at), "kind": string(kind), "calls": ""} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// calls returns the programs that were run.
func (p *programs) calls() []string {
	calls, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if err != nil {
		return nil
	}
	var out []string
	for line := range bytes.Lines(calls) {
		out = append(out, string(bytes.TrimSpace(line)))
	}
	return out
}
