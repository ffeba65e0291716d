package decode

import (
	"maps"
	"regexp"
	"slices"
)

// SecretKey matches keys of values whose text can only be a secret, not names of Secrets
// (existingSecret, secretName) or files.
var SecretKey = regexp.MustCompile(`(?i)^(.*password|.*passphrase|.*token|client_?secret|secret_?key|(aws_?)?secret_?access_?key|access_?key|api_?key|private_?key)$`)

// LiteralSecret returns the path of a key that holds a secret in plain text.
func LiteralSecret(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if s, ok := v[key].(string); ok && s != "" && SecretKey.MatchString(key) {
				return key
			}
			if in := LiteralSecret(v[key]); in != "" {
				return key + "." + in
			}
		}
	case []any:
		for _, item := range v {
			if in := LiteralSecret(item); in != "" {
				return in
			}
		}
	}
	return ""
}
