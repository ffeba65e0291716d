package importer

import (
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Options say what to write.
type Options struct {
	Name  string // of the cluster; empty: that of the inputs, else homelab
	Adopt bool   // take over the VMs that run: adopt: true
	Lab   bool   // for the embedded lab instead of the host
}

// Result is a new file, and the fate of each setting.
type Result struct {
	Text     string
	Files    []string // that were read, relative to what was imported
	Settings []Setting
	Notes    []string      // what to know before cluster:up
	Missing  spec.Problems // what the file still lacks, with lines of Text
}

// Count counts settings by fate.
func (r Result) Count(f Fate) int {
	n := 0
	for _, s := range r.Settings {
		if s.Fate == f {
			n++
		}
	}
	return n
}

// Import reads a file or a folder. out is where the text will be, for paths in it and in messages. The error is
// [*ReadError] or that of the file system.
func Import(from, out string, o Options) (*Result, error) {
	src, err := read(from)
	if err != nil {
		return nil, err
	}
	return o.draft(src, out), nil
}

func (o Options) draft(src *sources, out string) *Result {
	d := &draft{options: o, words: map[string]word{}}
	for _, w := range words() {
		for name := range strings.FieldsSeq(w.names) {
			d.words[name] = w
		}
	}
	d.resources(&src.module)
	d.ansible(src)
	for _, v := range src.plain {
		d.variable(v.name, v.value)
	}
	last := completion{d}
	last.finish()
	missing := last.settle(out)
	last.keepTrue()
	r := &Result{Text: d.text(), Files: src.files, Notes: d.notes, Missing: missing}
	for _, s := range d.settings {
		r.Settings = append(r.Settings, s.Setting)
	}
	return r
}
