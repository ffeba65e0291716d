package getopt

import (
	"slices"
	"strings"
)

// Parse splits arguments by getopt's rules: short flags may be joined, those in
// valued take a value, long ones too as "--name=value" or, if listed, from the
// next argument; "--" ends them. Values are joined under the flag's name.
func Parse(args []string, valued ...string) (opts map[string][]string, rest []string) {
	opts = map[string][]string{}
	takes := func(name string) bool { return slices.Contains(valued, name) }
	for i := 0; i < len(args); i++ {
		a := args[i]
		next := func() string {
			if i++; i < len(args) {
				return args[i]
			}
			return ""
		}
		switch {
		case a == "--":
			return opts, append(rest, args[i+1:]...)
		case strings.HasPrefix(a, "--"):
			name, value, has := strings.Cut(a[2:], "=")
			if !has && takes(name) {
				value = next()
			}
			opts[name] = append(opts[name], value)
		case len(a) > 1 && a[0] == '-':
			for j := 1; j < len(a); j++ {
				name := a[j : j+1]
				if !takes(name) {
					opts[name] = append(opts[name], "")
					continue
				}
				value := a[j+1:]
				if value == "" {
					value = next()
				}
				opts[name] = append(opts[name], value)
				break
			}
		default:
			rest = append(rest, a)
		}
	}
	return opts, rest
}

// Has reports whether one of the flags was given.
func Has(opts map[string][]string, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := opts[n]; return ok })
}

// Last returns the last value given for one of the names.
func Last(opts map[string][]string, names ...string) string {
	for _, n := range names {
		if v := opts[n]; len(v) > 0 {
			return v[len(v)-1]
		}
	}
	return ""
}
