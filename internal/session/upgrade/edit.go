package upgrade

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// edit is a cluster file with another version of K3s.
type edit struct {
	data []byte
	line int    // that differs, counted from 1
	was  string // the line before; empty if there was none
	is   string // the line now
}

// most is how many nodes of YAML an edit reads.
const most = 1 << 20

// withVersion returns a file with another version of K3s and no other difference: comments, order
// and everything else stay. If that cannot be done, the error says which line to change.
func withVersion(file string, data []byte, version string) (edit, error) {
	before, err := cluster.Parse(file, data)
	if err != nil {
		return edit{}, err
	}
	k3s, at, old := find(data)
	byHand := fmt.Errorf("%s cannot be changed without touching something else: write version: %s under k3s: by hand (line %d), then run homelab cluster:up",
		file, version, max(cmp.Or(at.Line, k3s.Line), 1))
	lines := bytes.SplitAfter(data, []byte("\n"))
	e := edit{line: at.Line}
	switch {
	case at.Line > 0 && at.Line <= len(lines):
		line := lines[at.Line-1]
		from := min(at.Col-1, len(line)) // of characters, so not behind the text
		i := bytes.Index(line[from:], []byte(old))
		if i < 0 {
			return edit{}, byHand
		}
		from += i
		changed := append(append(append([]byte(nil), line[:from]...), version...), line[from+len(old):]...)
		e.was, e.is = text(line), text(changed)
		lines[at.Line-1] = changed
	case k3s.Line > 0 && k3s.Line < len(lines): // the version is the default: above the first key of k3s
		next := lines[k3s.Line]
		indent := next[:len(next)-len(bytes.TrimLeft(next, " "))]
		if len(indent) == 0 || !strings.HasPrefix(strings.TrimSpace(string(lines[k3s.Line-1])), "k3s:") {
			return edit{}, byHand
		}
		added := append(append(append([]byte(nil), indent...), "version: "+version...), '\n')
		e.line, e.is = k3s.Line+1, text(added)
		lines[k3s.Line] = append(added, next...)
	default:
		return edit{}, byHand
	}
	e.data = bytes.Join(lines, nil)
	after, err := cluster.Parse(file, e.data)
	if err != nil {
		return edit{}, fmt.Errorf("with version %s the file would be wrong, so it stays as it is: %w", version, err)
	}
	same := *before
	same.K3s.Version, same.Warnings, after.Warnings = version, nil, nil
	same.Places, after.Places = nil, nil // a line more moves them
	if after.K3s.Version != version || !reflect.DeepEqual(&same, after) {
		return edit{}, byHand
	}
	return e, nil
}

func text(line []byte) string { return strings.TrimRight(string(line), "\r\n") }

// find returns where the section k3s is, and where its version is, with its text.
func find(data []byte) (k3s, version yamlnode.Pos, text string) {
	left := most
	r := yamlnode.Reader{Budget: &left, Odd: func(yamlnode.Oddity) {}}
	docs, err := r.Read(data)
	if err != nil || len(docs) != 1 {
		return k3s, version, ""
	}
	f, ok := docs[0].Field("k3s")
	if !ok {
		return k3s, version, ""
	}
	v := f.Value.Get("version")
	return f.At, v.Place(), v.Str()
}
