package decode

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// structure decodes a mapping into a struct. Missing fields get the mapping's place, so that
// "x is missing" has a useful place.
func (d *decoder) structure(t *yamlnode.Node, v reflect.Value, name string) {
	known := Keys(v.Type())
	for _, f := range Fields(v.Type()) {
		to := v.FieldByIndex(f.index)
		value, ok := t.Field(f.Name)
		switch {
		case !ok || value.Value.Kind == yamlnode.Null:
			d.absent(to, d.missing(t.At, v.Type(), f))
		case f.Single:
			d.single(value.Value, to, f.Name)
		case f.Named:
			d.entries(value.Value, to, f.Name)
		default:
			d.value(value.Value, to, f.Name)
			d.choice(to, f)
		}
		if !ok || value.Value.Kind == yamlnode.Null || to.Kind() == reflect.String {
			preset(to, f)
		}
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
	if !IsSection(v.Type()) {
		return
	}
	for _, f := range Fields(v.Type()) {
		d.absent(v.FieldByIndex(f.index), d.missing(at, v.Type(), f))
		preset(v.FieldByIndex(f.index), f)
	}
}

// choice refuses a text that is none of its choices, and puts the default in its place.
func (d *decoder) choice(v reflect.Value, f Field) {
	if v.Kind() != reflect.String || len(f.Enum) == 0 || v.IsZero() || slices.Contains(f.Enum, v.String()) {
		return
	}
	at := v.Addr().Interface()
	known := f.Enum
	if f.Default != "" { // which comes first
		known = append([]string{f.Default}, slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == f.Default })...)
	}
	d.Wrong(at, fmt.Sprintf("%s cannot be %q", f.Name, v.String()), OrSuggest(v.String(), known))
	d.refused[d.Place(at)] = true
	v.SetString(known[0])
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
	if why, ok := rootOnly[f.Name]; ok && (t == reflect.TypeFor[spec.Shape]() || slices.Contains(known, "cores") || t == reflect.TypeFor[spec.GPURequest]()) {
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
	if paths := furtherIn(t, f.Name); len(paths) > 0 && t != reflect.TypeFor[spec.Spec]() {
		d.undecodable(f.At, what, "it belongs in "+suggest.JoinOr(paths)+", a level further in")
		return
	}
	if paths := placesOf(f.Name); len(paths) > 0 {
		d.undecodable(f.At, what, "it belongs "+suggest.JoinOr(paths))
		return
	}
	d.undecodable(f.At, what, "known here: "+strings.Join(known, ", "))
}

// furtherIn lists the keys of a type whose section has the key.
func furtherIn(t reflect.Type, name string) []string {
	var out []string
	for _, f := range Fields(t) {
		in, each := f.Type, ""
		if f.Named {
			in, each = in.Elem(), ".NAME"
		}
		if in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		if !IsSection(in) {
			continue
		}
		if slices.ContainsFunc(Fields(in), func(f Field) bool { return f.Name == name }) {
			out = append(out, f.Name+each)
		}
	}
	return out
}

// placesOf lists where the sections are that have a key, for one in the wrong section.
func placesOf(name string) []string {
	var out []string
	for _, f := range Fields(reflect.TypeFor[spec.Spec]()) {
		t := f.Type
		if f.Name == name {
			out = append(out, "at the outermost level")
		}
		if t.Kind() != reflect.Struct {
			continue
		}
		for _, in := range Fields(t) {
			if in.Name == name {
				out = append(out, "in "+f.Name)
			}
		}
	}
	return out
}
