package yamlvalue

import "fmt"

// Text prints a scalar of YAML; everything else is empty.
func Text(v any) string {
	switch v := v.(type) {
	case nil, map[string]any, []any:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// List makes a list of what may be one or a single value.
func List(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}

// Texts are the scalars of what may be one or a list.
func Texts(v any) []string {
	var out []string
	for _, e := range List(v) {
		if s := Text(e); s != "" {
			out = append(out, s)
		}
	}
	return out
}
