package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// diff lists what applying would change.
func (s comparison) diff() converge.Diff {
	if s.live == nil {
		return converge.Missing("new").WithPrefix(s.ref.path())
	}
	if s.isUnchanged() {
		return nil
	}
	var d converge.Diff
	fields(&d, "", stableFields(s.live), stableFields(s.after))
	if len(d) == 0 {
		d = converge.Diff{{Path: "fields", Have: "another's", Want: "ours", Effect: converge.Update, Note: "the values are right; from now on this field manager owns them"}}
	}
	if s.ref.Kind == "Secret" {
		mask(d)
	}
	return d.WithPrefix(s.ref.path())
}

// mask hides values: those of a Secret, and of annotations, which may repeat them.
func mask(d converge.Diff) {
	for i := range d {
		if d[i].Have != "" {
			d[i].Have = secret.Mask
		}
		if d[i].Want != "" {
			d[i].Want = secret.Mask
		}
	}
}

// fields appends a field for every leaf in which have and want differ.
func fields(d *converge.Diff, path string, have, want any) {
	if reflect.DeepEqual(have, want) {
		return
	}
	hm, hok := have.(map[string]any)
	wm, wok := want.(map[string]any)
	if hok && wok {
		keys := slices.Sorted(maps.Keys(hm))
		for k := range wm {
			if _, both := hm[k]; !both {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			fields(d, join(path, k), hm[k], wm[k])
		}
		return
	}
	hn, hok := byName(have)
	wn, wok := byName(want)
	if hok && wok {
		fields(d, path, hn, wn)
		return
	}
	*d = append(*d, converge.Field{Path: path, Have: show(have), Want: show(want), Effect: converge.Update})
}

// byName turns a list of named things, such as containers, into a mapping.
func byName(v any) (map[string]any, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	out := map[string]any{}
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			return nil, false
		}
		name, ok := m["name"].(string)
		if _, twice := out[name]; !ok || twice {
			return nil, false
		}
		out[name] = m
	}
	return out, true
}

// join appends a key to a path; keys with dots in them, such as labels, are quoted.
func join(path, key string) string {
	if strings.Contains(key, ".") {
		key = fmt.Sprintf("[%s]", key)
	} else if path != "" {
		key = "." + key
	}
	return path + key
}

// maxShown is how much of a value a difference shows, in characters.
const maxShown = 60

func show(v any) string {
	if v == nil {
		return ""
	}
	s, ok := v.(string)
	switch {
	case !ok:
		b, _ := json.Marshal(v)
		s = string(b)
	case s == "":
		s = `""`
	}
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxShown {
		s = string(r[:maxShown]) + "…"
	}
	return s
}
