package plane

import "strings"

// expand replaces $(NAME) by a container's variable, as the kubelet does in commands and values: a
// name that is not known stays as it is written, and $$ is one $ (Variable expansion in a
// container's command, Kubernetes API reference).
func expand(text string, env map[string]string) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i+1 == len(text) {
			return out.String() + text
		}
		out.WriteString(text[:i])
		text = text[i:]
		switch end := strings.IndexByte(text, ')'); {
		case text[1] == '$':
			out.WriteByte('$')
			text = text[2:]
		case text[1] == '(' && end > 0:
			value, known := env[text[2:end]]
			if !known {
				value = text[:end+1]
			}
			out.WriteString(value)
			text = text[end+1:]
		default:
			out.WriteByte('$')
			text = text[1:]
		}
	}
}
