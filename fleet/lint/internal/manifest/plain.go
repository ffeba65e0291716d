package manifest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// plain reads a document with Fleet's parser, which has no places: every node is at the
// document's first line. It returns what is wrong, or "".
func plain(text []byte, skip int, budget *int) (*yamlnode.Node, string) {
	data, what := decode(text)
	if what != "" {
		return nil, what
	}
	return FromData(data, yamlnode.Pos{Line: skip + 1, Col: 1}, budget), ""
}

// decode calls sigs.k8s.io/yaml, recovers from panics, and removes quoted text from errors.
func decode(text []byte) (data any, what string) {
	defer func() {
		if recover() != nil {
			data, what = nil, yamlnode.ErrParser.Error()
		}
	}()
	if err := yaml.Unmarshal(text, &data); err != nil {
		what = strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
		if i := strings.IndexAny(what, "`\n"); i >= 0 {
			what = strings.TrimSpace(what[:i])
		}
		return nil, strings.TrimPrefix(what, "yaml: ")
	}
	return data, ""
}

func FromData(v any, at yamlnode.Pos, budget *int) *yamlnode.Node {
	n := &yamlnode.Node{At: at}
	if *budget--; *budget < 0 {
		return n
	}
	switch v := v.(type) {
	case bool:
		n.Kind, n.Text = yamlnode.Bool, strconv.FormatBool(v)
	case float64:
		n.Kind, n.Text = yamlnode.Number, strconv.FormatFloat(v, 'g', -1, 64)
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			n.Text = strconv.FormatInt(int64(v), 10)
		}
	case string:
		n.Kind, n.Text = yamlnode.Text, v
	case []any:
		n.Kind = yamlnode.List
		for _, item := range v {
			n.Items = append(n.Items, FromData(item, at, budget))
		}
	case map[string]any:
		n.Kind = yamlnode.Map
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			n.Fields = append(n.Fields, yamlnode.Field{Name: name, At: at, Value: FromData(v[name], at, budget)})
		}
	case nil:
	default:
		n.Kind, n.Text = yamlnode.Text, fmt.Sprint(v)
	}
	return n
}

// Data converts nodes to encoding/json's types, which templates and schemas use.
func Data(n *yamlnode.Node) any {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case yamlnode.Null:
		return nil
	case yamlnode.Map:
		m := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			m[f.Name] = Data(f.Value)
		}
		return m
	case yamlnode.List:
		l := make([]any, 0, len(n.Items))
		for _, item := range n.Items {
			l = append(l, Data(item))
		}
		return l
	case yamlnode.Bool, yamlnode.Number:
		if v, err := strconv.ParseInt(n.Text, 10, 53); err == nil && (n.Text[0] != '0' || n.Text == "0") {
			return float64(v)
		}
		return scalarOf(n)
	case yamlnode.Text:
		if n.Plain && notText.MatchString(n.Text) { // yes, 1e3
			return scalarOf(n)
		}
	}
	return n.Text
}

// scalar is the value that Fleet's parser reads from a text without quotes.
func scalarOf(n *yamlnode.Node) any {
	var v any
	if yaml.Unmarshal([]byte(n.Text), &v) == nil {
		switch v.(type) {
		case bool, float64:
			return v
		}
	}
	return n.Text
}
