package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
)

// object is a node of a JSON tree.
type object = map[string]any

// leaf is a key of cluster.yaml that has a value of its own: its path, with * for names and []
// for items of lists, and the schema of its value.
type leaf struct {
	path   string
	schema object
}

// leaves are all keys of the schema.
func leavesOf(t *testing.T) []leaf {
	var schema object
	require.NoError(t, json.Unmarshal(clusterfile.Schema(), &schema))
	defs := schema["$defs"].(object)
	var out []leaf
	var value func(path string, s object)
	keys := func(path string, s object) {
		properties := s["properties"].(object)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			value(strings.TrimPrefix(path+"."+name, "."), properties[name].(object))
		}
	}
	value = func(path string, s object) {
		for _, c := range choices(s) {
			if name, ok := strings.CutPrefix(fmt.Sprint(c["$ref"]), "#/$defs/"); ok {
				keys(path, defs[name].(object))
				return
			}
			if below, ok := c["additionalProperties"].(object); ok && refers(below) {
				value(path+".*", below)
				return
			}
			if below, ok := c["items"].(object); ok && refers(below) {
				value(path+".[]", below)
				return
			}
		}
		out = append(out, leaf{path, s})
	}
	keys("", schema)
	return out
}

// choices are the ways in which a schema lets a value be written.
func choices(s object) []object {
	out := []object{s}
	for _, of := range []string{"anyOf", "oneOf"} {
		all, _ := s[of].([]any)
		for _, c := range all {
			out = append(out, choices(c.(object))...)
		}
	}
	return out
}

func refers(s object) bool {
	return slices.ContainsFunc(choices(s), func(c object) bool { return c["$ref"] != nil })
}

// places are the paths of a tree that a leaf's path stands for. Those where the file has a value
// come first; where nothing is there yet, the last key is made.
func places(tree any, path string) [][]string {
	type found struct {
		at    []string
		there bool
	}
	var all []found
	var walk func(v any, at, rest []string)
	walk = func(v any, at, rest []string) {
		if len(rest) == 0 {
			all = append(all, found{slices.Clone(at), v != nil})
			return
		}
		switch v := v.(type) {
		case []any:
			for i := range v {
				walk(v[i], append(slices.Clip(at), strconv.Itoa(i)), rest[1:])
			}
		case object:
			if rest[0] != "*" {
				walk(v[rest[0]], append(slices.Clip(at), rest[0]), rest[1:])
				return
			}
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(v[name], append(slices.Clip(at), name), rest[1:])
			}
		case nil:
			if !slices.ContainsFunc(rest, func(k string) bool { return k == "*" || k == "[]" }) {
				all = append(all, found{append(slices.Clip(at), rest...), false})
			}
		}
	}
	walk(tree, nil, strings.Split(path, "."))
	slices.SortStableFunc(all, func(a, b found) int { return strings.Compare(fmt.Sprint(b.there), fmt.Sprint(a.there)) })
	var out [][]string
	for _, f := range all {
		out = append(out, f.at)
	}
	return out
}

// at is the value at a path, nil if there is none.
func at(tree any, path []string) any {
	for _, key := range path {
		switch v := tree.(type) {
		case object:
			tree = v[key]
		case []any:
			i, _ := strconv.Atoi(key)
			tree = v[i]
		default:
			return nil
		}
	}
	return tree
}

// with is a tree with another value at a path, and shares the rest.
func with(tree any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if list, ok := tree.([]any); ok {
		list = slices.Clone(list)
		i, _ := strconv.Atoi(path[0])
		list[i] = with(list[i], path[1:], value)
		return list
	}
	m, _ := tree.(object)
	out := maps.Clone(m)
	if out == nil {
		out = object{}
	}
	out[path[0]] = with(m[path[0]], path[1:], value)
	return out
}

var digits = regexp.MustCompile(`[0-9]+`)

// others are values that a key could have in place of one, nil for none: those of its schema, and
// small changes of the value.
func others(s object, value any) []any {
	var out []any
	for _, c := range choices(s) {
		if list, ok := c["enum"].([]any); ok {
			return slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == value })
		}
		switch c["type"] {
		case "boolean":
			if on, set := value.(bool); set {
				return []any{!on}
			}
			out = append(out, true, false)
		case "integer", "number":
			n, _ := value.(float64)
			out = append(out, n+1, max(n-1, 0), n*2)
		case "string":
			out = append(out, texts(c, value)...)
		case "array":
			list, _ := value.([]any)
			if len(list) > 1 {
				out = append(out, list[:len(list)-1], append(slices.Clone(list[1:]), list[0]))
			}
			var item any
			if len(list) > 0 {
				item = list[len(list)-1]
			}
			for _, x := range others(c["items"].(object), item) {
				out = append(out, append(slices.Clone(list[:max(len(list)-1, 0)]), x))
			}
		case "object":
			m, _ := value.(object)
			more, _ := c["additionalProperties"].(object)
			for _, name := range slices.Sorted(maps.Keys(m)) {
				for _, x := range others(more, m[name]) {
					out = append(out, with(m, []string{name}, x))
				}
			}
			for _, x := range others(more, nil) {
				out = append(out, with(m, []string{"example.com/added"}, x), with(m, []string{"added"}, x))
			}
		}
	}
	return out
}

// texts are the other texts for a key.
func texts(s object, value any) []any {
	v, _ := value.(string)
	var out []any
	if example, ok := s["examples"].([]any); ok {
		out = append(out, example...)
		if strings.HasPrefix(fmt.Sprint(example[0]), "env:") {
			return []any{"env:KEYS_OTHER"}
		}
	}
	if v == "" {
		return append(out, "other", "/other", "10.0.0.0/8", "1h", "2GiB")
	}
	if all := digits.FindAllStringIndex(v, -1); len(all) > 0 { // the last number, one higher or lower
		last := all[len(all)-1]
		n, _ := strconv.Atoi(v[last[0]:last[1]])
		for _, n := range []int{n + 1, max(n-1, 0), n * 2} {
			out = append(out, v[:last[0]]+strconv.Itoa(n)+v[last[1]:])
		}
	}
	return append(out, v+"x", "x"+v, "other-ca.pem", "other")
}
