package jupyterhub

import (
	_ "embed" // the keys
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/suggest"
)

// chartKeys are the keys of the chart's values, dotted, with the types that its schema allows. A
// map may have any keys.
//
//go:embed chart.keys
var chartKeys string

// ValueFault is a value that the chart's schema refuses.
type ValueFault struct {
	Path string // dotted
	What string
	Cure string
}

// CheckChartValues returns what the schema of the chart refuses in raw values, before Helm does.
func CheckChartValues(raw map[string]any) []ValueFault {
	types, below := map[string]string{}, map[string][]string{}
	for line := range strings.Lines(chartKeys) {
		path, kinds, _ := strings.Cut(strings.TrimSpace(line), " ")
		types[path] = kinds
		parent, key := "", path
		if i := strings.LastIndexByte(path, '.'); i >= 0 {
			parent, key = path[:i], path[i+1:]
		}
		below[parent] = append(below[parent], key)
	}
	return faultsOf(raw, "", types, below)
}

func faultsOf(raw map[string]any, at string, types map[string]string, below map[string][]string) []ValueFault {
	var out []ValueFault
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		path := strings.TrimPrefix(at+"."+key, ".")
		kinds, known := types[path]
		if !known {
			out = append(out, ValueFault{Path: path, What: fmt.Sprintf("JupyterHub's chart has no key %s, and Helm refuses it", path), Cure: insteadOf(path, key, below[at])})
			continue
		}
		value := raw[key]
		if !fitsType(value, kinds) {
			out = append(out, ValueFault{Path: path, What: fmt.Sprintf("%s is %s, and JupyterHub's chart refuses that", path, typeOf(value)), Cure: "write " + inWords(kinds)})
			continue
		}
		if m, ok := value.(map[string]any); ok && kinds == "object" {
			out = append(out, faultsOf(m, path, types, below)...)
		}
	}
	return out
}

// elsewhere are keys that people look for, with what has their effect.
func elsewhere() map[string]string {
	const amounts = "write hub.profiles with cpu:, memory: and gpus:; singleuser.extraResource has further resources"
	return map[string]string{
		"singleuser.resources": amounts, "singleuser.limits": amounts, "singleuser.requests": amounts, "singleuser.gpu": amounts,
		"singleuser.tolerations": "write extraTolerations", "singleuser.env": "write extraEnv", "singleuser.volumes": "write storage.extraVolumes",
		"singleuser.profiles": "write hub.profiles", "singleuser.runtimeClassName": "profiles with GPUs have it; for all, write extraPodConfig",
		"auth": "write hub.auth of this file, or hub.config", "hub.auth": "write hub.auth of this file, or hub.config", "hub.env": "write extraEnv",
	}
}

func insteadOf(path, key string, known []string) string {
	if cure := elsewhere()[path]; cure != "" {
		return cure
	}
	if near := suggest.Nearest(key, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known there: " + strings.Join(known, ", ")
}

// fitsType reports whether the schema's types, separated by |, allow a value.
func fitsType(v any, kinds string) bool {
	got := typeOf(v)
	for kind := range strings.SplitSeq(kinds, "|") {
		switch kind {
		case "any", got:
			return true
		case "map":
			if got == "object" {
				return true
			}
		case "number":
			if got == "integer" {
				return true
			}
		}
	}
	return false
}

// typeOf is the type of a value in the words of JSON Schema.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case float64:
		if v != math.Trunc(v) {
			return "number"
		}
	}
	return "integer"
}

func inWords(kinds string) string {
	words := map[string]string{"object": "a mapping", "map": "a mapping", "array": "a list", "boolean": "true or false", "integer": "a whole number", "number": "a number", "string": "text", "null": "null"}
	var out []string
	for kind := range strings.SplitSeq(kinds, "|") {
		if kind != "null" {
			out = append(out, words[kind])
		}
	}
	return suggest.JoinOr(out)
}
