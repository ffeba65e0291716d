package sops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits on the size of a document: aliases can make a small file large.
const (
	mostNodes = 100_000
	deepest   = 100
)

var errLarge = errors.New("it has more values than any file of secrets")

// fromYAML reads the documents of a file with the library of sops, because the authentication
// code depends on how numbers and dates are read.
func fromYAML(text []byte) ([]branch, error) {
	var docs []branch
	d := yaml.NewDecoder(bytes.NewReader(text))
	r := yamlReader{left: mostNodes}
	for {
		var node yaml.Node
		err := d.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not YAML: %w", err)
		}
		var v any
		if len(node.Content) > 0 {
			if v, err = r.value(node.Content[0], 0); err != nil {
				return nil, err
			}
		}
		doc, isMapping := v.(branch)
		if v != nil && !isMapping {
			return nil, errors.New("the document is not a mapping")
		}
		docs = append(docs, doc)
	}
	if len(docs) == 0 {
		docs = []branch{nil}
	}
	return docs, nil
}

type yamlReader struct{ left int }

func (r *yamlReader) value(n *yaml.Node, depth int) (any, error) {
	if r.left--; r.left < 0 || depth > deepest {
		return nil, errLarge
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := r.value(c, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.MappingNode:
		return r.mapping(n, depth)
	default:
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, fmt.Errorf("line %d: a value that YAML does not know", n.Line)
		}
		return v, nil
	}
}

func (r *yamlReader) mapping(n *yaml.Node, depth int) (branch, error) {
	out := make(branch, 0, len(n.Content)/2)
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		var name any
		if err := n.Content[i].Decode(&name); err != nil {
			return nil, fmt.Errorf("line %d: a key that YAML does not know", n.Content[i].Line)
		}
		key, isText := name.(string)
		if !isText || seen[key] {
			return nil, fmt.Errorf("line %d: keys must be different strings", n.Content[i].Line)
		}
		seen[key] = true
		v, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, item{key, v})
	}
	return out, nil
}

// fromJSON reads an object. sops writes files of unknown form so, too, with their bytes under
// the key data.
func fromJSON(text []byte) (branch, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := jsonValue(d, 0)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	doc, isObject := v.(branch)
	if !isObject {
		return nil, errors.New("not a JSON object")
	}
	return doc, nil
}

func jsonValue(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > deepest {
		return nil, errLarge
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return jsonList(d, depth)
		}
		return jsonObject(d, depth)
	case json.Number:
		if n, err := strconv.Atoi(t.String()); err == nil {
			return n, nil
		}
		return t.Float64()
	default:
		return t, nil
	}
}

func jsonList(d *json.Decoder, depth int) (any, error) {
	out := []any{}
	for d.More() {
		v, err := jsonValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.Token()
	return out, err
}

func jsonObject(d *json.Decoder, depth int) (any, error) {
	out := branch{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string) // the decoder takes nothing else for a key
		v, err := jsonValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, item{key, v})
	}
	_, err := d.Token()
	return out, err
}

// fromDotenv reads KEY=value lines; the metadata is in keys that begin with sops_.
func fromDotenv(text []byte, file string) (encryptedFile, error) {
	var doc, meta branch
	for n, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found {
			return encryptedFile{}, fmt.Errorf("line %d is not KEY=value", n+1)
		}
		value = strings.ReplaceAll(value, `\n`, "\n")
		if name, ours := strings.CutPrefix(key, "sops_"); ours {
			if err := meta.put(name, value); err != nil {
				return encryptedFile{}, fmt.Errorf("line %d: %w", n+1, err)
			}
			continue
		}
		doc = append(doc, item{key, value})
	}
	if meta == nil {
		return split([]branch{nil}, nil, file)
	}
	m, err := readMetadata(meta)
	return encryptedFile{[]branch{doc}, m}, err
}

// Separators of a path in a key of dotenv (sops, stores/flatten.go), as in
// "age__list_0__map_enc".
const (
	mapMark  = "__map_"
	listMark = "__list_"
)

// put stores a value of flattened metadata at its place: a key, or a key, the number of a list's
// item, and a key of that item, which may have lists again.
func (b *branch) put(name, value string) error {
	key, rest, nested := strings.Cut(name, listMark)
	if !nested {
		*b = append(*b, item{name, value})
		return nil
	}
	number, inner, found := strings.Cut(rest, mapMark)
	n, err := strconv.Atoi(number)
	const mostKeys = 1000
	if !found || err != nil || n < 0 || n > mostKeys {
		return errors.New("not a name that sops writes")
	}
	items, _ := b.get(key).([]any)
	for len(items) <= n {
		items = append(items, branch(nil))
	}
	in, _ := items[n].(branch)
	if err := in.put(inner, value); err != nil {
		return err
	}
	items[n] = in
	*b = append(b.without(key), item{key, items})
	return nil
}
