package importer

import (
	"strings"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

const maxNodes = 200_000

// parseYAML reads the documents of a file as one: later keys win.
func parseYAML(name string, data []byte) (value, error) {
	budget := maxNodes
	var odd *ReadError
	r := yamlnode.Reader{Budget: &budget, Odd: func(o yamlnode.Oddity) {
		if o.What == yamlnode.TooMuch {
			odd = &ReadError{Place: place{name, o.At.Line}.String(), What: "the file is too large"}
		}
	}}
	docs, err := r.Read(data)
	if err != nil {
		at, what := r.Reason(err)
		return value{}, &ReadError{Place: place{name, max(1, at.Line)}.String(), What: "no YAML: " + what}
	}
	if odd != nil {
		return value{}, odd
	}
	out := value{kind: object, at: place{name, 1}}
	for _, d := range docs {
		v := fromYAML(name, d)
		if v.kind != object {
			return v, nil
		}
		out.fields = append(out.fields, v.fields...)
	}
	return out, nil
}

func fromYAML(file string, n *yamlnode.Node) value {
	v := value{at: place{file, max(1, n.Place().Line)}}
	if n == nil {
		return v
	}
	v.text = n.Text
	switch n.Kind {
	case yamlnode.Null:
	case yamlnode.Bool:
		v.kind, v.text = boolean, strings.ToLower(n.Text)
	case yamlnode.Number:
		v.kind = number
	case yamlnode.Text:
		v.kind = text
		if n.Plain && (strings.EqualFold(n.Text, "yes") || strings.EqualFold(n.Text, "no")) { // Ansible reads YAML 1.1
			v.kind, v.text = boolean, map[bool]string{true: "true", false: "false"}[strings.EqualFold(n.Text, "yes")]
		}
	case yamlnode.List:
		v.kind = list
		for _, item := range n.Items {
			v.items = append(v.items, fromYAML(file, item))
		}
	case yamlnode.Map:
		v.kind = object
		for _, f := range n.Fields {
			v.fields = append(v.fields, field{f.Name, fromYAML(file, f.Value)})
		}
	}
	return v
}
