package fleet

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/secret"
)

// document is a YAML file that is written key by key, in a readable order and with comments.
// Values are written by the library with which Fleet reads them, so that special values (yes,
// on, 0755) are quoted.
type document struct {
	b      strings.Builder
	indent string
}

func (d *document) comment(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		fmt.Fprintf(&d.b, "%s# %s\n", d.indent, strings.TrimRight(line, "\n"))
	}
}

// field writes a key and its value.
func (d *document) field(key string, value any) {
	text, err := yaml.Marshal(map[string]any{key: value})
	if err != nil { // a map of a string to plain values
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if line != "\n" {
			d.b.WriteString(d.indent)
		}
		d.b.WriteString(line)
	}
}

// item starts an item of a list with its first key; line and field with a deeper indent
// continue it.
func (d *document) item(key string, value any) {
	var first document
	first.field(key, value)
	fmt.Fprintf(&d.b, "%s- %s", d.indent, first.b.String())
}

// line writes a further line of an item unchanged.
func (d *document) line(text string) { fmt.Fprintf(&d.b, "%s  %s\n", d.indent, text) }

// section writes a key whose value fill writes.
func (d *document) section(key string, fill func()) {
	fmt.Fprintf(&d.b, "%s%s:\n", d.indent, key)
	outer := d.indent
	d.indent += "  "
	fill()
	d.indent = outer
}

func (d *document) bytes() []byte { return []byte(d.b.String()) }

// managedBy is a label that Helm sets on everything that it installs, whatever a manifest says
// (helm pkg/action/validate.go, setMetadataVisitor). Fleet compares with the manifest: another
// value would be Modified forever.
const managedBy = "app.kubernetes.io/managed-by"

// plain returns objects as the mappings that are sent to the API server, without Helm's label, and without namespaces:
// several parts may have objects in one, and Fleet would delete it, with all that is in it, with the first that leaves Git.
func plain(objects []runtime.Object) ([]*unstructured.Unstructured, error) {
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		u, err := kube.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		if u.GetKind() == "Namespace" {
			continue
		}
		if labels := u.GetLabels(); labels[managedBy] != "" {
			delete(labels, managedBy)
			u.SetLabels(labels)
		}
		out = append(out, u)
	}
	return out, nil
}

// manifest writes an object, with the identifying keys first.
func manifest(o *unstructured.Unstructured) ([]byte, error) {
	var d document
	for _, key := range []string{"apiVersion", "kind", "metadata"} {
		if v, ok := o.Object[key]; ok {
			d.field(key, v)
		}
	}
	rest := map[string]any{}
	for k, v := range o.Object {
		if k != "apiVersion" && k != "kind" && k != "metadata" {
			rest[k] = v
		}
	}
	if len(rest) == 0 {
		return d.bytes(), nil
	}
	text, err := yaml.Marshal(rest)
	return append(d.bytes(), text...), err
}

// values writes a values file.
func values(b Bundle, all map[string]any) ([]byte, error) {
	text, err := yaml.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: values: %w", b.Name, err)
	}
	var d document
	d.comment("What differs from the own values of chart %s.", b.Release.Chart)
	return append(d.bytes(), text...), nil
}

// masked reports whether text comes from a [secret.Value].
func masked(text string) bool { return strings.Contains(text, secret.Mask) }

// eachString calls visit for every string in v: keys, and values at any depth.
func eachString(v any, visit func(string) error) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return err
	}
	return walk(plain, visit)
}

func walk(v any, visit func(string) error) error {
	switch v := v.(type) {
	case string:
		return visit(v)
	case map[string]any:
		for k, e := range v {
			if err := visit(k); err != nil {
				return err
			}
			if err := walk(e, visit); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := walk(e, visit); err != nil {
				return err
			}
		}
	}
	return nil
}
