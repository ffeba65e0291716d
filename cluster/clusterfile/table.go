package clusterfile

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
)

// parts.json is generated from the parts: go test ./internal/platform -run TestParts -update. So a program that
// reads a file needs no code that makes them.
//
//go:embed parts.json
var table []byte

// part is what the file has to know of a part of the platform.
type part struct {
	Name    string // in charts.versions, charts.values and charts.via
	Section string // the key of the file that turns it on
	Chart   string // the name of its chart
	Version string // that is installed
	Shared  bool   // it provides a storage class whose volumes survive a node, and which every node can mount
}

// parts are those with a chart, in the order of installation.
func parts() []part {
	var out []part
	if err := json.Unmarshal(table, &out); err != nil {
		panic(err) // a test has read it
	}
	return out
}

// part returns a part by its name; zero: there is none.
func (r *resolver) part(name string) part {
	i := slices.IndexFunc(r.parts, func(p part) bool { return p.Name == name })
	if i < 0 {
		return part{}
	}
	return r.parts[i]
}

// class is one storage class that the file creates.
type class struct {
	name   string
	at     any    // of its name, or of the section that creates it
	rename string // what to write to give it another name
	shared bool   // its volumes survive a node and every node can mount them, so that it may become the default
}

// classes lists those that the file creates, in the order of the parts.
func (r *resolver) classes() []class {
	var out []class
	for _, p := range r.parts {
		if !strings.HasPrefix(p.Section, "storage.") || reflect.ValueOf(decode.FieldAt(r.spec, p.Section)).IsNil() {
			continue
		}
		name := decode.FieldAt(r.spec, p.Section+".class").(*string)
		at := any(name)
		if !r.IsSet(at) {
			at = decode.FieldAt(r.spec, p.Section)
		}
		out = append(out, class{*name, at, "write class: and another name", p.Shared})
	}
	if nfs := r.spec.Platform.Storage.NFS; nfs != nil {
		for i := range nfs.Classes { // they become the default only if the file says so
			out = append(out, class{nfs.Classes[i].Name, &nfs.Classes[i], "give it another name", false})
		}
	}
	return out
}
