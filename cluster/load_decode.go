package cluster

import (
	"encoding"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
)

// decoder fills the raw types from a tree and marks where each field was.
type decoder struct {
	*checker
	quiet bool // the tree was put together from layers that were decoded before
}

// decodeTree fills out, a pointer to a raw type, from t.
func (c *checker) decodeTree(t *tree, out any, name string) {
	d := decoder{checker: c}
	d.value(t, reflect.ValueOf(out).Elem(), name)
}

// decodeMerged fills out from layers that have each been decoded: what is wrong
// in them has been said.
func (c *checker) decodeMerged(t *tree, out any) {
	d := decoder{checker: c, quiet: true}
	d.value(t, reflect.ValueOf(out).Elem(), "")
}

func (d *decoder) undecodable(at pos, what, cure string) {
	if !d.quiet {
		d.checker.undecodable(at, what, cure)
	}
}

// value decodes t into v. A null leaves v as it is.
func (d *decoder) value(t *tree, v reflect.Value, name string) {
	d.marks[v.Addr().Interface()] = mark{t.at, t.kind != kindNull}
	if t.kind == kindNull {
		return
	}
	if v.Kind() != reflect.Interface && t.isScalar() && !d.shows(t.at, t.text, name) {
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(t, u, name)
		return
	}
	if _, ok := v.Interface().(ordered); ok {
		d.named(t, v, name)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if form, ok := reflect.Zero(v.Type().Elem()).Interface().(shortForm); ok && switchedOff(t, form) {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		d.value(t, v.Elem(), name)
	case reflect.Struct:
		if form, ok := v.Interface().(shortForm); ok {
			t = unfold(t, form)
		}
		if !d.is(t, kindMapping, name) {
			d.absent(v, t.at)
			return
		}
		d.structure(t, v, name)
	case reflect.Slice:
		if d.is(t, kindSequence, name) {
			v.Set(reflect.MakeSlice(v.Type(), len(t.items), len(t.items)))
			for i, item := range t.items {
				d.value(item, v.Index(i), name)
			}
		}
	case reflect.Map:
		if d.is(t, kindMapping, name) {
			d.mapping(t, v, name)
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf(plain(t)))
	default:
		d.scalar(t, v, name)
	}
}

// shows refuses text that shows otherwise than it is: what stands here goes to terminals,
// to command lines on hosts and into their files. Raw values of charts are handed on.
func (d *decoder) shows(at pos, text, name string) bool {
	switch {
	case name == "content", name == "privateKey": // of a file; a path, for which a key itself has words of its own
		return true
	case name == "description", strings.HasPrefix(name, "env."):
		text = strings.NewReplacer("\n", "", "\t", "").Replace(text)
	}
	r, hidden := printable.Hidden(text)
	switch {
	case !hidden:
		return true
	case r == '\n':
		d.undecodable(at, name+" has a line break", "write it in one line, without | or > before it")
	default:
		d.undecodable(at, fmt.Sprintf("%s has the character %U, which nobody sees", printable.Text(name), r), "take it away")
	}
	return false
}

// is reports a value of the wrong kind. It does not repeat the value: a secret
// may have slipped into the wrong line.
func (d *decoder) is(t *tree, want kind, name string) bool {
	if t.kind == want {
		return true
	}
	d.undecodable(t.at, fmt.Sprintf("%s must be %s and is %s", name, want, t.kind), map[kind]string{
		kindMapping:  "write its keys in the lines below, indented, each as key: value",
		kindSequence: "write [a, b], or one item a line after a hyphen",
		kindBool:     "write true or false",
		kindNumber:   "write digits without quotes or unit",
		kindText:     "write plain text",
	}[want])
	return false
}

func (d *decoder) scalar(t *tree, v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.String:
		if !t.isScalar() {
			d.is(t, kindText, name)
			return
		}
		v.SetString(t.text)
	case reflect.Bool:
		if d.is(t, kindBool, name) {
			v.SetBool(strings.EqualFold(t.text, "true"))
		}
	case reflect.Int:
		if !d.is(t, kindNumber, name) {
			return
		}
		n, err := strconv.ParseInt(t.text, 10, 32)
		if err != nil {
			d.undecodable(t.at, fmt.Sprintf("%s must be a whole number below 2147483648 and is %s", name, t.text), "write digits only")
			return
		}
		v.SetInt(n)
	default:
		panic("cluster: a raw type has a field of kind " + v.Kind().String())
	}
}

// text decodes values with a syntax of their own.
func (d *decoder) text(t *tree, u encoding.TextUnmarshaler, name string) {
	if !t.isScalar() {
		d.undecodable(t.at, fmt.Sprintf("%s must be one value and is %s", name, t.kind), instead(u))
		return
	}
	err := u.UnmarshalText([]byte(t.text))
	var c cure
	switch {
	case err == nil:
	case errors.As(err, &c):
		d.undecodable(t.at, c.what, c.instead)
	case errors.Is(err, ErrInlineSecret):
		d.undecodable(t.at, name+" must be a reference to a secret, never the secret itself", "write env:NAME for an environment variable or file:PATH for a file with mode 0600, and change the secret if this file was shared")
	case errors.Is(err, ErrSOPS):
		d.undecodable(t.at, ErrSOPS.Error(), "decrypt to a file with mode 0600 and write file:PATH, or run under sops exec-env and write env:NAME")
	default:
		d.undecodable(t.at, fmt.Sprintf("%s: %s", name, describe(u, t.text, err)), instead(u))
	}
}

// describe says what is wrong with a value; netip's own errors speak of functions.
func describe(u encoding.TextUnmarshaler, text string, err error) string {
	switch u.(type) {
	case *netip.Addr:
		return fmt.Sprintf("%q is not an IP address", text)
	case *netip.Prefix:
		return fmt.Sprintf("%q is not a network", text)
	default:
		return err.Error()
	}
}

// instead is an example of what the value's type can read.
func instead(u encoding.TextUnmarshaler) string {
	switch u.(type) {
	case *Size:
		return "write a number with its unit, e.g. 512MiB, 16GiB or 1TiB"
	case *netip.Addr:
		return "write it without a prefix length, e.g. 10.0.0.11"
	case *netip.Prefix:
		return "write address/length, e.g. 10.0.0.0/24"
	case *PCIAddress:
		return "write it as lspci does, e.g. 01:00, 01:00.0 or 0000:01:00.0"
	case *MAC:
		return "write six bytes, e.g. 02:1f:88:0a:9e:31"
	case *addressRange:
		return "write 10.0.0.11, or 10.0.0.11-10.0.0.13"
	case *vmidRange:
		return "write 201, or 201-204; VMIDs are 100 to 999999999"
	case *bootOrder:
		return "write order=1,up=30,down=120, any of them; up and down are seconds"
	case *fileMode:
		return `write it in octal, e.g. "0644"`
	case *Taint:
		return "write key=value:NoSchedule"
	case *period:
		return "write a number with its unit, e.g. 15s, 30m, 1h30m or 15d"
	case *cores:
		return "write a number of cores, e.g. 4, 0.5 or 500m"
	case *addressPool:
		return "write a range, e.g. 10.0.0.200-10.0.0.219, or a prefix, e.g. 10.0.0.208/28"
	default:
		return "write plain text"
	}
}

// plain returns t as the YAML library would give it: for keys that are passed on.
func plain(t *tree) any {
	switch t.kind {
	case kindNull:
		return nil
	case kindBool:
		return strings.EqualFold(t.text, "true")
	case kindNumber:
		if n, err := strconv.ParseInt(t.text, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(t.text, 64); err == nil {
			return f
		}
		return t.text
	case kindSequence:
		out := make([]any, len(t.items))
		for i, item := range t.items {
			out[i] = plain(item)
		}
		return out
	case kindMapping:
		out := make(map[string]any, len(t.fields))
		for _, f := range t.fields {
			out[f.name] = plain(f.value)
		}
		return out
	default:
		return t.text
	}
}

// mapping decodes into a Go map; its entries are marked as members.
func (d *decoder) mapping(t *tree, v reflect.Value, name string) {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(t.fields)))
	d.marks[v.Addr().Interface()] = mark{t.at, true}
	for _, f := range t.fields {
		d.marks[member{v.Addr().Interface(), f.name}] = mark{f.at, true}
		if !d.shows(f.at, f.name, "a key of "+name) {
			continue
		}
		if f.value.kind == kindNull && v.Type().Elem().Kind() != reflect.Interface {
			continue
		}
		if f.value.kind == kindNull {
			v.SetMapIndex(reflect.ValueOf(f.name), reflect.Zero(v.Type().Elem()))
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(f.value, item, name+"."+f.name)
		v.SetMapIndex(reflect.ValueOf(f.name), item)
	}
}

// named decodes a mapping from names, in the file's order.
func (d *decoder) named(t *tree, v reflect.Value, name string) {
	if !d.is(t, kindMapping, name) {
		return
	}
	for _, f := range t.fields {
		if d.quiet && f.value.kind == kindNull { // a layer took it away
			continue
		}
		if !d.shows(f.at, f.name, "a key of "+name) {
			continue
		}
		e := reflect.New(v.Type().Elem()).Elem()
		value := reflect.New(e.Field(1).Type().Elem())
		e.Field(0).SetString(f.name)
		e.Field(1).Set(value)
		if f.value.kind == kindNull { // "wk-gpu3:" alone, or unset
			d.marks[value.Interface()] = mark{f.at, false}
			d.structure(&tree{kind: kindMapping, at: f.at}, value.Elem(), f.name)
		} else {
			d.value(f.value, value.Elem(), f.name)
		}
		d.marks[value.Interface()] = mark{f.at, true}
		v.Set(reflect.Append(v, e))
	}
}
