package pvesim

// subdirs answers for a directory of the API: what is below it, each under the key
// that the schema has for it there.
func subdirs(key string, names ...string) handler {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = map[string]any{key: name}
	}
	return func(*call) (any, error) { return out, nil }
}
