package hub

import (
	"fmt"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Source is one source of a release's values.
type Source struct {
	File string
	Text []byte // of the file
	Root *yamlnode.Node
}

// Values are a release's values. The last source that has a value wins.
type Values []Source

// Finding is a mistake in values.
type Finding struct {
	File  string
	At    yamlnode.Pos
	What  string
	Cure  string
	Fatal bool // the chart or the hub refuses it, or it lets in or loses what it should not
}

// value is one with its source.
type value struct {
	*yamlnode.Node
	from Source
	at   yamlnode.Pos // of its key
}

// get returns a value that is not null; its node is nil if there is none.
func (v Values) get(names ...string) value {
	got, _ := v.lookup(names...)
	return got
}

// lookup is get, and says whether the value is set to null, which removes the chart's own.
func (v Values) lookup(names ...string) (got value, null bool) {
	parents, last := names[:len(names)-1], names[len(names)-1]
	for i := len(v) - 1; i >= 0; i-- {
		if f, ok := v[i].Root.Get(parents...).Field(last); ok {
			if !f.Value.Set() {
				return value{}, true
			}
			return value{f.Value, v[i], f.At}, false
		}
	}
	return value{}, false
}

func (v value) set() bool { return v.Node != nil }

// is says whether a value is true or false; otherwise is for a missing one.
func (v Values) is(otherwise bool, names ...string) bool {
	got, null := v.lookup(names...)
	if got.set() {
		return got.Str() == "true"
	}
	return otherwise && !null
}

// keys are those of a mapping in all sources, in their order.
func (v Values) keys(names ...string) (out []string) {
	seen := map[string]bool{}
	for _, s := range v {
		for _, f := range s.Root.Get(names...).Entries() {
			if !seen[f.Name] {
				seen[f.Name] = true
				out = append(out, f.Name)
			}
		}
	}
	return out
}

// finder collects findings.
type finder struct {
	Values
	out []Finding
}

func (f *finder) add(fatal bool, at value, cure, format string, args ...any) {
	f.out = append(f.out, Finding{File: at.from.File, At: at.at, What: fmt.Sprintf(format, args...), Cure: cure, Fatal: fatal})
}
