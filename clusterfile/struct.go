package clusterfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// rawField is one field of a raw type.
type rawField struct {
	name  string
	index []int
}

// rawFields lists the fields of a raw type, those of an inlined type included.
func rawFields(t reflect.Type) []rawField {
	var out []rawField
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if option == "inline" {
			for _, in := range rawFields(f.Type) {
				out = append(out, rawField{in.name, append([]int{i}, in.index...)})
			}
			continue
		}
		out = append(out, rawField{name, []int{i}})
	}
	return out
}

// structure decodes a mapping into a struct. Fields that are not there are marked
// with the mapping's place, so that "x is missing" points somewhere useful.
func (d *decoder) structure(t *yamlnode.Node, v reflect.Value, name string) {
	fields := rawFields(v.Type())
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.name
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

// absent marks v and what is in it with the place of the mapping that lacks it.
func (d *decoder) absent(v reflect.Value, at yamlnode.Pos) {
	d.marks[v.Addr().Interface()] = mark{at, false}
	if v.Kind() != reflect.Struct || !strings.HasPrefix(v.Type().Name(), "raw") {
		return
	}
	for _, f := range rawFields(v.Type()) {
		d.absent(v.FieldByIndex(f.index), at)
	}
}

// rootOnly are options of a VM that Proxmox lets nobody set but root@pam with a
// password: not even root's token. Source: qemu-server, API2/Qemu.pm, check_vm_modify_config_perm.
var rootOnly = map[string]string{
	"keephugepages": "memory is pinned for GPU nodes anyway", "args": "say what you need it for in an issue",
	"romfile": "the card's own ROM is used; rombar: false hides it", "hookscript": "set it by hand as root",
	"lock": "Proxmox sets it", "vmgenid": "Proxmox makes one", "arch": "nodes are x86-64",
	"ivshmem": "set it by hand as root",
}

func (d *decoder) unknown(f yamlnode.Field, in string, t reflect.Type, known []string) {
	where := ""
	if in != "" {
		where = " in " + in
	}
	if why, ok := rootOnly[f.Name]; ok && (t == reflect.TypeFor[rawShape]() || slices.Contains(known, "cores") || t == reflect.TypeFor[rawGPUs]()) {
		d.undecodable(f.At, fmt.Sprintf("%s can be set only by root@pam with a password, and Proxmox refuses it to any API token, root's too", f.Name), "remove it; "+why)
		return
	}
	what := fmt.Sprintf("unknown key %q%s", f.Name, where)
	if s := likely(f.Name, known); s != "" {
		d.undecodable(f.At, what, fmt.Sprintf("did you mean %q?", s))
		d.meant[s] = true
		return
	}
	if paths := furtherIn(t, f.Name); len(paths) > 0 && t != reflect.TypeFor[rawFile]() {
		d.undecodable(f.At, what, "it belongs in "+suggest.OneOf(paths)+", a level further in")
		return
	}
	if paths := placesOf(f.Name); len(paths) > 0 {
		d.undecodable(f.At, what, "it belongs in "+suggest.OneOf(paths))
		return
	}
	d.undecodable(f.At, what, "known here: "+strings.Join(known, ", "))
}

// furtherIn lists the keys of a type below which there is the key.
func furtherIn(t reflect.Type, name string) []string {
	var out []string
	for _, f := range rawFields(t) {
		in, each := t.FieldByIndex(f.index).Type, ""
		if in.Implements(reflect.TypeFor[ordered]()) {
			in, each = in.Elem().Field(1).Type, ".NAME"
		}
		if in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		if in.Kind() != reflect.Struct || !strings.HasPrefix(in.Name(), "raw") {
			continue
		}
		if slices.ContainsFunc(rawFields(in), func(f rawField) bool { return f.name == name }) {
			out = append(out, f.name+each)
		}
	}
	return out
}

// placesOf lists the sections that know a key, for one that was put into the wrong one.
func placesOf(name string) []string {
	var out []string
	for _, f := range rawFields(reflect.TypeFor[rawFile]()) {
		t := reflect.TypeFor[rawFile]().FieldByIndex(f.index).Type
		if f.name == name {
			out = append(out, "the outermost level")
		}
		if t.Kind() != reflect.Struct {
			continue
		}
		for _, in := range rawFields(t) {
			if in.name == name {
				out = append(out, f.name)
			}
		}
	}
	return out
}
