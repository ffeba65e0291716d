package lint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/internal/yamlbound"
)

// lintPlain reads a document by the parser that Fleet uses, which knows no places:
// all of it is at the document's first line. It says what is wrong, or "".
func lintPlain(text []byte, skip int, budget *int) (*lintNode, string) {
	data, what := lintDecode(text)
	if what != "" {
		return nil, what
	}
	return lintFromData(data, lintPos{skip + 1, 1}, budget), ""
}

// lintDecode calls sigs.k8s.io/yaml without letting it panic, and leaves out of its
// errors what they quote.
func lintDecode(text []byte) (data any, what string) {
	defer func() {
		if recover() != nil {
			data, what = nil, yamlbound.ErrParser.Error()
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

func lintFromData(v any, at lintPos, budget *int) *lintNode {
	n := &lintNode{at: at}
	if *budget--; *budget < 0 {
		return n
	}
	switch v := v.(type) {
	case bool:
		n.kind, n.text = lintBool, strconv.FormatBool(v)
	case float64:
		n.kind, n.text = lintNumber, strconv.FormatFloat(v, 'g', -1, 64)
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			n.text = strconv.FormatInt(int64(v), 10)
		}
	case string:
		n.kind, n.text = lintText, v
	case []any:
		n.kind = lintList
		for _, item := range v {
			n.items = append(n.items, lintFromData(item, at, budget))
		}
	case map[string]any:
		n.kind = lintMap
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			n.fields = append(n.fields, lintField{name, at, lintFromData(v[name], at, budget)})
		}
	case nil:
	default:
		n.kind, n.text = lintText, fmt.Sprint(v)
	}
	return n
}

// data turns nodes into what encoding/json would make of them: the form in which
// values go to templates and schemas.
func (n *lintNode) data() any {
	if n == nil {
		return nil
	}
	switch n.kind {
	case lintNull:
		return nil
	case lintMap:
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.name] = f.value.data()
		}
		return m
	case lintList:
		l := make([]any, 0, len(n.items))
		for _, item := range n.items {
			l = append(l, item.data())
		}
		return l
	case lintBool, lintNumber:
		if v, err := strconv.ParseInt(n.text, 10, 53); err == nil && (n.text[0] != '0' || n.text == "0") {
			return float64(v)
		}
		return n.scalar()
	case lintText:
		if n.plain && lintNotText.MatchString(n.text) { // yes, 1e3
			return n.scalar()
		}
	}
	return n.text
}

// scalar is what Fleet's parser makes of a text without quotes.
func (n *lintNode) scalar() any {
	var v any
	if yaml.Unmarshal([]byte(n.text), &v) == nil {
		switch v.(type) {
		case bool, float64:
			return v
		}
	}
	return n.text
}
