package decode

import (
	"slices"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Merge merges upper over lower: mappings key by key, everything else is replaced, and null
// removes what lower sets. Either may be nil. Every value keeps the place where it was
// written, so a problem is reported there and not where it is inherited.
func Merge(lower, upper *yamlnode.Node) *yamlnode.Node {
	if lower == nil || upper == nil || lower.Kind != yamlnode.Map || upper.Kind != yamlnode.Map {
		if upper == nil {
			return lower
		}
		return upper
	}
	out := *upper
	out.Fields = nil
	for _, f := range lower.Fields {
		over, ok := upper.Field(f.Name)
		switch {
		case !ok:
			out.Fields = append(out.Fields, f)
		case over.Value.Kind == yamlnode.Null:
		case f.Name == "gpus":
			out.Fields = append(out.Fields, yamlnode.Field{Name: f.Name, At: over.At, Value: mergeGPUs(f.Value, over.Value)})
		default:
			out.Fields = append(out.Fields, yamlnode.Field{Name: f.Name, At: over.At, Value: Merge(f.Value, over.Value)})
		}
	}
	for _, f := range upper.Fields {
		if lower.Index(f.Name) < 0 {
			out.Fields = append(out.Fields, f)
		}
	}
	return &out
}

// which are the three ways to name GPUs; the upper layer's way replaces the lower's.
var whichGPUs = []string{"count", "pci", "mapping"}

// mergeGPUs merges gpus, which may be a bare count: a node that names its cards
// does not inherit its pool's count.
func mergeGPUs(lower, upper *yamlnode.Node) *yamlnode.Node {
	lower, upper = gpusMapping(lower), gpusMapping(upper)
	if lower.Kind == yamlnode.Map && upper.Kind == yamlnode.Map &&
		slices.ContainsFunc(whichGPUs, func(k string) bool { return upper.Index(k) >= 0 }) {
		lower = lower.Without(whichGPUs...)
	}
	return Merge(lower, upper)
}

// gpusMapping turns the short form "gpus: 2" into "gpus: {count: 2}".
func gpusMapping(t *yamlnode.Node) *yamlnode.Node {
	if t.Kind != yamlnode.Number {
		return t
	}
	return &yamlnode.Node{Kind: yamlnode.Map, At: t.At, Fields: []yamlnode.Field{{Name: "count", At: t.At, Value: t}}}
}
