package written

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Keys lists the keys that a section knows, in their order; t is a struct of this package.
func Keys(t reflect.Type) []string {
	fields := fields(t)
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.name
	}
	return keys
}

// field is one field of a section.
type field struct {
	name  string
	index []int
}

// fields lists the fields of a section, those of an inlined type included.
func fields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if option == "inline" {
			for _, in := range fields(f.Type) {
				out = append(out, field{in.name, append([]int{i}, in.index...)})
			}
			continue
		}
		out = append(out, field{name, []int{i}})
	}
	return out
}

// structure decodes a mapping into a struct. Missing fields get the mapping's place, so that
// "x is missing" has a useful place.
func (d *decoder) structure(t *yamlnode.Node, v reflect.Value, name string) {
	known := Keys(v.Type())
	for _, f := range fields(v.Type()) {
		to := v.FieldByIndex(f.index)
		value, ok := t.Field(f.name)
		if !ok || value.Value.Kind == yamlnode.Null {
			d.absent(to, t.At)
			continue
		}
		d.value(value.Value, to, f.name)
	}
	if d.quiet {
		return
	}
	for _, f := range t.Fields {
		if !slices.Contains(known, f.Name) {
			d.unknown(f, name, v.Type(), known)
		}
	}
}

// absent marks v and its contents with the place of the mapping that lacks it.
func (d *decoder) absent(v reflect.Value, at yamlnode.Pos) {
	d.marks[v.Addr().Interface()] = mark{at, false}
	if !isSection(v.Type()) {
		return
	}
	for _, f := range fields(v.Type()) {
		d.absent(v.FieldByIndex(f.index), at)
	}
}

// isSection reports whether t has keys of its own: a struct of this package that no text is decoded into.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[File]().PkgPath() && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// rootOnly are options of a VM that only root@pam with a password may set: not even root's token.
// Source: qemu-server, API2/Qemu.pm, check_vm_modify_config_perm.
var rootOnly = map[string]string{
	"keephugepages": "memory is pinned for GPU nodes anyway", "args": "say what you need it for in an issue",
	"romfile": "the card's own ROM is used; rombar: false hides it", "hookscript": "set it by hand as root",
	"lock": "Proxmox sets it", "vmgenid": "Proxmox makes one", "arch": "nodes are x86-64, and an external machine says which it is",
	"ivshmem": "set it by hand as root",
}

func (d *decoder) unknown(f yamlnode.Field, in string, t reflect.Type, known []string) {
	where := ""
	if in != "" {
		where = " in " + in
	}
	if why, ok := rootOnly[f.Name]; ok && (t == reflect.TypeFor[Shape]() || slices.Contains(known, "cores") || t == reflect.TypeFor[GPUs]()) {
		d.undecodable(f.At, fmt.Sprintf("%s can be set only by root@pam with a password, and Proxmox refuses it to any API token, root's too", f.Name), "remove it; "+why)
		return
	}
	what := fmt.Sprintf("unknown key %q%s", f.Name, where)
	if w, ok := answer(t, f); ok {
		d.undecodable(f.At, what+": "+w.why, w.instead)
		return
	}
	if s := Likely(f.Name, known); s != "" {
		d.undecodable(f.At, what, fmt.Sprintf("did you mean %q?", s))
		d.meant[s] = true
		return
	}
	if paths := furtherIn(t, f.Name); len(paths) > 0 && t != reflect.TypeFor[File]() {
		d.undecodable(f.At, what, "it belongs in "+suggest.OneOf(paths)+", a level further in")
		return
	}
	if paths := placesOf(f.Name); len(paths) > 0 {
		d.undecodable(f.At, what, "it belongs in "+suggest.OneOf(paths))
		return
	}
	d.undecodable(f.At, what, "known here: "+strings.Join(known, ", "))
}

// furtherIn lists the keys of a type whose section has the key.
func furtherIn(t reflect.Type, name string) []string {
	var out []string
	for _, f := range fields(t) {
		in, each := t.FieldByIndex(f.index).Type, ""
		if in.Implements(reflect.TypeFor[Ordered]()) {
			in, each = in.Elem().Field(1).Type, ".NAME"
		}
		if in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		if !isSection(in) {
			continue
		}
		if slices.ContainsFunc(fields(in), func(f field) bool { return f.name == name }) {
			out = append(out, f.name+each)
		}
	}
	return out
}

// placesOf lists the sections that have a key, for one in the wrong section.
func placesOf(name string) []string {
	var out []string
	for _, f := range fields(reflect.TypeFor[File]()) {
		t := reflect.TypeFor[File]().FieldByIndex(f.index).Type
		if f.name == name {
			out = append(out, "the outermost level")
		}
		if t.Kind() != reflect.Struct {
			continue
		}
		for _, in := range fields(t) {
			if in.name == name {
				out = append(out, f.name)
			}
		}
	}
	return out
}
