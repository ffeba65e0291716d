package cluster

import "slices"

// merge lays upper over lower: mappings are merged key by key, everything else is
// replaced, and null takes away what lower says. Either may be nil. Every value
// keeps the place where it was written, so a problem is reported there and not
// where it was inherited.
func merge(lower, upper *tree) *tree {
	if lower == nil || upper == nil || lower.kind != kindMapping || upper.kind != kindMapping {
		if upper == nil {
			return lower
		}
		return upper
	}
	out := *upper
	out.fields = nil
	for _, f := range lower.fields {
		over, ok := upper.lookup(f.name)
		switch {
		case !ok:
			out.fields = append(out.fields, f)
		case over.value.kind == kindNull:
		case f.name == "gpus":
			out.fields = append(out.fields, field{f.name, over.at, mergeGPUs(f.value, over.value)})
		default:
			out.fields = append(out.fields, field{f.name, over.at, merge(f.value, over.value)})
		}
	}
	for _, f := range upper.fields {
		if lower.index(f.name) < 0 {
			out.fields = append(out.fields, f)
		}
	}
	return &out
}

func (t *tree) lookup(name string) (field, bool) {
	if i := t.index(name); i >= 0 {
		return t.fields[i], true
	}
	return field{}, false
}

// which are the three ways to say which GPUs; the upper layer's way replaces the lower's.
var whichGPUs = []string{"count", "pci", "mapping"}

// mergeGPUs merges gpus, which may be a bare count: a node that names its cards
// does not inherit its pool's count.
func mergeGPUs(lower, upper *tree) *tree {
	lower, upper = gpusMapping(lower), gpusMapping(upper)
	if lower.kind == kindMapping && upper.kind == kindMapping &&
		slices.ContainsFunc(whichGPUs, func(k string) bool { return upper.index(k) >= 0 }) {
		lower = lower.without(whichGPUs...)
	}
	return merge(lower, upper)
}

// gpusMapping turns the short form "gpus: 2" into "gpus: {count: 2}".
func gpusMapping(t *tree) *tree {
	if t.kind != kindNumber {
		return t
	}
	return &tree{kind: kindMapping, at: t.at, fields: []field{{"count", t.at, t}}}
}

// without returns t less some keys.
func (t *tree) without(names ...string) *tree {
	if t == nil || t.kind != kindMapping {
		return t
	}
	out := *t
	out.fields = slices.DeleteFunc(slices.Clone(t.fields), func(f field) bool { return slices.Contains(names, f.name) })
	return &out
}

// with returns t with one more key, unless it has it already.
func (t *tree) with(name string, value *tree) *tree {
	if t.index(name) >= 0 {
		return t
	}
	out := *t
	out.fields = append(slices.Clone(t.fields), field{name, value.at, value})
	return &out
}
