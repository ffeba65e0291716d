package decode

import (
	"encoding"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// decoder fills the sections from a tree and records the place of each field.
type decoder struct {
	*Checker
	quiet bool // the tree was merged from layers that were already decoded
}

// DecodeTree fills out, a pointer to a section, from t.
func (c *Checker) DecodeTree(t *yamlnode.Node, out any, name string) {
	d := decoder{Checker: c}
	d.value(t, reflect.ValueOf(out).Elem(), name)
}

// DecodeMerged fills out from layers that were already decoded: their mistakes were reported
// then.
func (c *Checker) DecodeMerged(t *yamlnode.Node, out any) {
	d := decoder{Checker: c, quiet: true}
	d.value(t, reflect.ValueOf(out).Elem(), "")
}

func (d *decoder) undecodable(at yamlnode.Pos, what, cure string) {
	if !d.quiet {
		d.Checker.undecodable(at, what, cure)
	}
}

// value decodes t into v. A null leaves v as it is.
func (d *decoder) value(t *yamlnode.Node, v reflect.Value, name string) {
	d.marks[v.Addr().Interface()] = mark{t.At, t.Kind != yamlnode.Null}
	if t.Kind == yamlnode.Null {
		return
	}
	if v.Kind() != reflect.Interface && t.Scalar() && !d.shows(t.At, t.Text, name) {
		return
	}
	switch to := v.Addr().Interface().(type) {
	case *spec.Switch:
		if d.is(t, yamlnode.Bool, name) {
			*to = spec.SwitchOf(strings.EqualFold(t.Text, "true"))
		}
		return
	case *time.Duration:
		d.text(t, (*Period)(to), name)
		return
	case encoding.TextUnmarshaler:
		d.text(t, to, name)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if switchedOff(t, v.Type().Elem()) {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		d.value(t, v.Elem(), name)
	case reflect.Struct:
		t = unfold(t, v.Type())
		if !d.is(t, yamlnode.Map, name) {
			d.absent(v, t.At)
			return
		}
		d.structure(t, v, name)
	case reflect.Slice:
		if d.is(t, yamlnode.List, name) {
			v.Set(reflect.MakeSlice(v.Type(), len(t.Items), len(t.Items)))
			for i, item := range t.Items {
				d.value(item, v.Index(i), name)
			}
		}
	case reflect.Map:
		if d.is(t, yamlnode.Map, name) {
			d.mapping(t, v, name)
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf(Plain(t)))
	default:
		d.scalar(t, v, name)
	}
}

// shows refuses text that displays differently than it is, because it goes to terminals, to
// command lines on hosts and into their files. Raw values of charts are passed on.
func (d *decoder) shows(at yamlnode.Pos, text, name string) bool {
	switch {
	case name == "content", name == "privateKey": // of a file; a path, for which a key itself has words of its own
		return true
	case name == "description", name == "start", name == "announcement", strings.HasPrefix(name, "env."):
		text = strings.NewReplacer("\n", "", "\t", "").Replace(text)
	}
	r, hidden := printable.Hidden(text)
	switch {
	case !hidden:
		return true
	case r == '\n':
		d.undecodable(at, name+" has a line break", "write it in one line, without | or > before it")
	default:
		d.undecodable(at, fmt.Sprintf("%s has the character %U, which is invisible", printable.Text(name), r), "remove it")
	}
	return false
}

// forms are the words for values that people write in other forms, by their key and the kind that
// is wanted.
var forms = map[string]struct {
	kind    yamlnode.Kind
	instead string
}{
	"gpus":     {yamlnode.Map, `write how many, e.g. gpus: 2; or a mapping: {count: 2, model: RTX 3090}, {pci: ["01:00"]}, {mapping: [NAME]}`},
	"external": {yamlnode.Text, "write one text, user@address:port, e.g. root@192.168.1.40:2222"},
	"layouts":  {yamlnode.List, "write how many of each profile: layouts: [{profiles: {1g.5gb: 7}}]"},
	"cpu":      {yamlnode.Text, "write the type alone, e.g. cpu: host; cores: is how many"},
	"numa":     {yamlnode.Bool, "write numa: true; numaNodes: shows the guest several NUMA nodes"},
	"networks": {yamlnode.Map, "write each further card by its name, e.g. networks: {storage: {bridge: vmbr1, prefix: 10.10.0.0/24}}; the first card is network:"},
	"devices":  {yamlnode.Map, `write each by its name, e.g. devices: {nvme: {pci: "0000:03:00.0"}, tpu: {pci: "1ac1:089a"}}`},
	"profiles": {yamlnode.Map, "write each by its name, e.g. profiles: {gpu: {title: GPU, gpus: 1, cpu: 4, memory: 16GiB}}"},
	"shared":   {yamlnode.Map, "write each with its path in the notebook, e.g. shared: {datasets: /data}, and its place under storage.nfs.shares"},
}

// is reports a value of the wrong kind. It does not repeat the value, which may be a secret on
// the wrong line.
func (d *decoder) is(t *yamlnode.Node, want yamlnode.Kind, name string) bool {
	if t.Kind == want {
		return true
	}
	if form := forms[name]; form.kind == want {
		d.undecodable(t.At, fmt.Sprintf("%s must be %s and is %s", name, want, t.Kind), form.instead)
		return false
	}
	d.undecodable(t.At, fmt.Sprintf("%s must be %s and is %s", name, want, t.Kind), map[yamlnode.Kind]string{
		yamlnode.Map:    "write its keys in the lines below, indented, each as key: value",
		yamlnode.List:   "write [a, b], or one item a line after a hyphen",
		yamlnode.Bool:   "write true or false",
		yamlnode.Number: "write digits without quotes or unit",
		yamlnode.Text:   "write plain text",
	}[want])
	return false
}

func (d *decoder) scalar(t *yamlnode.Node, v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.String:
		if !t.Scalar() {
			d.is(t, yamlnode.Text, name)
			return
		}
		v.SetString(t.Text)
	case reflect.Bool:
		if d.is(t, yamlnode.Bool, name) {
			v.SetBool(strings.EqualFold(t.Text, "true"))
		}
	case reflect.Int:
		if !d.is(t, yamlnode.Number, name) {
			return
		}
		var n int
		if err := parseInt(&n, t.Text); err != nil {
			cure := "write digits only"
			if name == "gpus" && strings.Contains(t.Text, ".") {
				cure = "write 1; nodes share their GPUs with nvidia: {sharing: {strategy: time-slicing, replicas: 4}}, and gpus: 1 is then one share"
			}
			d.undecodable(t.At, fmt.Sprintf("%s must be a whole number below 2147483648 and is %s", name, t.Text), cure)
			return
		}
		v.SetInt(int64(n))
	default:
		panic("decode: a section has a field of kind " + v.Kind().String())
	}
}

func parseInt(to *int, text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	*to = int(n)
	return err
}

// text decodes values with a syntax of their own.
func (d *decoder) text(t *yamlnode.Node, u encoding.TextUnmarshaler, name string) {
	if _, network := u.(*netip.Prefix); network && (t.Kind == yamlnode.List || strings.Contains(t.Text, ",")) {
		d.undecodable(t.At, name+" is several networks", "write the one of IPv4 here, and the one of IPv6 as prefix6")
		return
	}
	if _, several := u.(*spec.Ranges); several && t.Kind == yamlnode.List {
		var texts []string
		for _, item := range t.Items {
			texts = append(texts, item.Text)
		}
		t = &yamlnode.Node{Kind: yamlnode.Text, At: t.At, Text: strings.Join(texts, ",")}
	}
	if !t.Scalar() {
		d.undecodable(t.At, fmt.Sprintf("%s must be one value and is %s", name, t.Kind), instead(u))
		return
	}
	err := u.UnmarshalText([]byte(t.Text))
	var c interface{ Instead() string }
	switch ref, isRef := u.(*spec.SecretRef); {
	case err == nil && isRef:
		*ref = ref.RelativeTo(d.Dir)
	case err == nil:
	case errors.As(err, &c):
		d.undecodable(t.At, err.Error(), c.Instead())
	case errors.Is(err, spec.ErrInlineSecret):
		d.undecodable(t.At, name+" must be a reference to a secret, never the secret itself", "write env:NAME, file:PATH (mode 0600) or sops:FILE#path, and change the secret if this file was shared")
	case errors.Is(err, spec.ErrSOPS):
		d.undecodable(t.At, spec.ErrSOPS.Error(), "write sops:FILE#path, such as sops:secrets.yaml#proxmox.token")
	default:
		d.undecodable(t.At, fmt.Sprintf("%s: %s", name, describe(u, t.Text, err)), instead(u))
	}
}

// describe says what is wrong with a value; netip's own errors name functions.
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

// instead is an example of a valid value of the type.
func instead(u encoding.TextUnmarshaler) string {
	switch u.(type) {
	case *spec.Size:
		return "write a number with its unit, e.g. 512MiB, 16GiB or 1TiB"
	case *netip.Addr:
		return "write it without a prefix length, e.g. 10.0.0.11"
	case *netip.Prefix:
		return "write address/length, e.g. 10.0.0.0/24"
	case *spec.Ranges:
		return "write address/length, e.g. 10.42.0.0/16, or a list of two"
	case *spec.ASN:
		return "write a number from 1 to 4294967295; 64512 to 65534 and 4200000000 to 4294967294 are for private use"
	case *spec.PCIAddress:
		return "write it as lspci does, e.g. 01:00, 01:00.0 or 0000:01:00.0"
	case *spec.MAC:
		return "write six bytes, e.g. 02:1f:88:0a:9e:31"
	case *spec.AddressRange:
		return "write 10.0.0.11, or 10.0.0.11-10.0.0.13"
	case *spec.VMIDRange:
		return "write 201, or 201-204; VMIDs are 100 to 999999999"
	case *spec.Startup:
		return "write order=1,up=30,down=120, any of them; up and down are seconds"
	case *spec.FileMode:
		return `write it in octal, e.g. "0644"`
	case *spec.Taint:
		return "write key=value:NoSchedule"
	case *Period:
		return "write a number with its unit, e.g. 15s, 30m, 1h30m or 15d"
	case *spec.Cores:
		return "write a number of cores, e.g. 4, 0.5 or 500m"
	case *spec.AddressPool:
		return "write a range, e.g. 10.0.0.200-10.0.0.219, or a prefix, e.g. 10.0.0.208/28"
	default:
		return "write plain text"
	}
}

// Plain returns t as the YAML library would decode it, for keys that are passed on.
func Plain(t *yamlnode.Node) any {
	switch t.Kind {
	case yamlnode.Null:
		return nil
	case yamlnode.Bool:
		return strings.EqualFold(t.Text, "true")
	case yamlnode.Number:
		if n, err := strconv.ParseInt(t.Text, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(t.Text, 64); err == nil {
			return f
		}
		return t.Text
	case yamlnode.List:
		out := make([]any, len(t.Items))
		for i, item := range t.Items {
			out[i] = Plain(item)
		}
		return out
	case yamlnode.Map:
		out := make(map[string]any, len(t.Fields))
		for _, f := range t.Fields {
			out[f.Name] = Plain(f.Value)
		}
		return out
	default:
		return t.Text
	}
}

// mapping decodes into a Go map; its entries are marked as members.
func (d *decoder) mapping(t *yamlnode.Node, v reflect.Value, name string) {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(t.Fields)))
	d.marks[v.Addr().Interface()] = mark{t.At, true}
	for _, f := range t.Fields {
		d.marks[member{v.Addr().Interface(), f.Name}] = mark{f.At, true}
		if !d.shows(f.At, f.Name, "a key of "+name) {
			continue
		}
		if f.Value.Kind == yamlnode.Null && v.Type().Elem().Kind() != reflect.Interface {
			continue
		}
		if f.Value.Kind == yamlnode.Null {
			v.SetMapIndex(reflect.ValueOf(f.Name), reflect.Zero(v.Type().Elem()))
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if item.Kind() == reflect.Interface || item.Kind() == reflect.Map {
			d.markMembers(v.Addr().Interface(), f.Value, f.Name)
		}
		d.value(f.Value, item, name+"."+f.Name)
		v.SetMapIndex(reflect.ValueOf(f.Name), item)
	}
}

// markMembers marks the keys below an entry of a map of raw values, or of maps of them, as members with
// dotted names.
func (d *decoder) markMembers(of any, t *yamlnode.Node, path string) {
	for _, f := range t.Fields {
		at := path + "." + f.Name
		d.marks[member{of, at}] = mark{f.At, true}
		d.markMembers(of, f.Value, at)
	}
}

// entries decodes a mapping from names into a list of sections, in the file's order.
func (d *decoder) entries(t *yamlnode.Node, v reflect.Value, name string) {
	d.marks[v.Addr().Interface()] = mark{t.At, t.Kind != yamlnode.Null}
	if t.Kind == yamlnode.Null || !d.is(t, yamlnode.Map, name) {
		return
	}
	fields := slices.DeleteFunc(slices.Clone(t.Fields), func(f yamlnode.Field) bool {
		return d.quiet && f.Value.Kind == yamlnode.Null || // a layer removed it
			!d.shows(f.At, f.Name, "a key of "+name)
	})
	v.Set(reflect.MakeSlice(v.Type(), len(fields), len(fields)))
	for i, f := range fields {
		e := v.Index(i)
		e.FieldByName("Name").SetString(f.Name)
		if f.Value.Kind == yamlnode.Null { // "wk-gpu3:" alone, or unset
			d.structure(&yamlnode.Node{Kind: yamlnode.Map, At: f.At}, e, f.Name)
		} else {
			d.value(f.Value, e, f.Name)
		}
		d.marks[e.Addr().Interface()] = mark{f.At, true}
	}
}

// single decodes an address into a network of that address alone.
func (d *decoder) single(t *yamlnode.Node, v reflect.Value, name string) {
	var a netip.Addr
	d.value(t, reflect.ValueOf(&a).Elem(), name)
	d.marks[v.Addr().Interface()] = mark{t.At, true}
	if a.IsValid() {
		v.Set(reflect.ValueOf(netip.PrefixFrom(a, a.BitLen())))
	}
}
