package decode

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// NewValueChecker is NewChecker for a value that was made in Go: its places are paths of fields, as in
// Platform.Storage.NFS.Export.
func NewValueChecker(file, dir string) *Checker {
	c := NewChecker(file)
	c.Dir, c.paths = dir, []string{"Spec"}
	return c
}

// ValueTree writes a section as the file would have it: what is zero is left out.
func (c *Checker) ValueTree(section any) *yamlnode.Node {
	return c.section(reflect.ValueOf(section), "")
}

// addPath numbers a path; a place is that number in place of a line.
func (c *Checker) addPath(path string) yamlnode.Pos {
	i := slices.Index(c.paths, path)
	if i < 0 {
		i = len(c.paths)
		c.paths = append(c.paths, path)
	}
	return yamlnode.Pos{Line: i + 1, Col: 1}
}

func (c *Checker) section(v reflect.Value, path string) *yamlnode.Node {
	out := &yamlnode.Node{Kind: yamlnode.Map, At: yamlnode.Pos{Line: 1, Col: 1}}
	if path != "" {
		out.At = c.addPath(path)
		path += "."
	}
	c.checkDerived(v, path)
	for _, f := range Fields(v.Type()) {
		if in := v.FieldByIndex(f.index); !in.IsZero() {
			p := path + f.path(v.Type())
			out.Fields = append(out.Fields, yamlnode.Field{Name: f.Name, At: c.addPath(p), Value: c.valueTree(in, f, p)})
		}
	}
	return out
}

// path is the name of the field in Go.
func (f Field) path(t reflect.Type) string {
	out := ""
	for _, i := range f.index {
		in := t.Field(i)
		t = in.Type
		if !in.Anonymous || !IsSection(t) || i == f.index[len(f.index)-1] {
			out += "." + in.Name
		}
	}
	return out[1:]
}

// Locate notes where the fields of a complete section are, a pointer: by their paths.
func (c *Checker) Locate(section any) { c.locate(reflect.ValueOf(section).Elem(), "") }

func (c *Checker) locate(v reflect.Value, path string) {
	if path != "" {
		c.marks[v.Addr().Interface()] = mark{c.addPath(path), !v.IsZero()}
	}
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		c.locate(v.Elem(), path)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			c.locate(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case v.Kind() == reflect.Map:
		c.locateEntries(v.Addr().Interface(), v, "", path)
	case IsSection(v.Type()):
		for _, f := range Fields(v.Type()) {
			c.locate(v.FieldByIndex(f.index), strings.TrimPrefix(path+"."+f.path(v.Type()), "."))
		}
	}
}

// locateEntries notes the entries of a map, and with dotted names those of the maps in it.
func (c *Checker) locateEntries(of any, v reflect.Value, name, path string) {
	for _, k := range v.MapKeys() {
		at, in := strings.TrimPrefix(name+"."+k.String(), "."), v.MapIndex(k)
		p := fmt.Sprintf("%s[%q]", path, k)
		c.marks[member{of, at}] = mark{c.addPath(p), true}
		if in.Kind() == reflect.Interface {
			in = in.Elem()
		}
		if in.Kind() == reflect.Map {
			c.locateEntries(of, in, at, p)
		}
	}
}

// checkDerived refuses fields that follow from others: what is in them would be lost.
func (c *Checker) checkDerived(v reflect.Value, path string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch tag := f.Tag.Get("yaml"); {
		case tag == ",inline":
			c.checkDerived(v.Field(i), path)
		case tag == "-" && f.Name != "Name" && !v.Field(i).IsZero():
			c.undecodable(c.addPath(path+f.Name), f.Name+" follows from other fields", "leave it out"+f.Tag.Get("doc"))
		}
	}
}

func (c *Checker) valueTree(v reflect.Value, f Field, path string) *yamlnode.Node {
	at := c.addPath(path)
	scalar := func(k yamlnode.Kind, text string) *yamlnode.Node { return &yamlnode.Node{Kind: k, At: at, Text: text} }
	switch in := v.Interface().(type) {
	case spec.Switch:
		return scalar(yamlnode.Bool, in.String())
	case time.Duration:
		return scalar(yamlnode.Text, Period(in).String())
	}
	if f.Single {
		return scalar(yamlnode.Text, fmt.Sprint(v.MethodByName("Addr").Call(nil)[0]))
	}
	if reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return scalar(yamlnode.Text, fmt.Sprint(v.Interface()))
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return scalar(yamlnode.Null, "")
		}
		return c.valueTree(v.Elem(), Field{}, path)
	case reflect.Struct:
		return c.section(v, path)
	case reflect.String:
		return scalar(yamlnode.Text, v.String())
	case reflect.Bool:
		return scalar(yamlnode.Bool, strconv.FormatBool(v.Bool()))
	case reflect.Slice:
		return c.list(v, f, path)
	case reflect.Map:
		out := &yamlnode.Node{Kind: yamlnode.Map, At: at}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			p := fmt.Sprintf("%s[%q]", path, k)
			out.Fields = append(out.Fields, yamlnode.Field{Name: k.String(), At: c.addPath(p), Value: c.valueTree(v.MapIndex(k), Field{}, p)})
		}
		return out
	default:
		return scalar(yamlnode.Number, fmt.Sprint(v.Interface()))
	}
}

// list writes a list, or a mapping from the names of its items.
func (c *Checker) list(v reflect.Value, f Field, path string) *yamlnode.Node {
	out := &yamlnode.Node{Kind: yamlnode.List, At: c.addPath(path)}
	first := map[string]string{}
	for i := range v.Len() {
		item, p := v.Index(i), fmt.Sprintf("%s[%d]", path, i)
		if !f.Named {
			out.Items = append(out.Items, c.valueTree(item, Field{}, p))
			continue
		}
		name := item.FieldByName("Name").String()
		if first[name] != "" {
			c.Unclear = true
			c.Wrong(c.addPath(p), fmt.Sprintf("%q is here twice, first as %s", name, first[name]), "keep one of them")
			continue
		}
		first[name] = p
		out.Fields = append(out.Fields, yamlnode.Field{Name: name, At: c.addPath(p), Value: c.valueTree(item, Field{}, p)})
	}
	if f.Named {
		out.Kind = yamlnode.Map
	}
	return out
}

// missing is the place of a field that is not there: its own path, or in a file that of the mapping
// that lacks it.
func (c *Checker) missing(at yamlnode.Pos, t reflect.Type, f Field) yamlnode.Pos {
	switch {
	case c.paths == nil:
		return at
	case at.Line <= 1:
		return c.addPath(f.path(t))
	}
	return c.addPath(c.paths[at.Line-1] + "." + f.path(t))
}
