package importer

import (
	"regexp"
	"strings"
)

var envLine = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$`)

// parseEnv reads a dotenv file: NAME=value, with or without quotes. It never fails; a line that is none of
// these is left out.
func parseEnv(name string, data []byte) []field {
	var out []field
	for i, line := range strings.Split(string(data), "\n") {
		m := envLine.FindStringSubmatch(strings.TrimRight(line, "\r"))
		if m == nil {
			continue
		}
		v := value{kind: text, at: place{name, i + 1}, text: strings.TrimSpace(m[2])}
		if q := v.text; len(q) > 0 && (q[0] == '"' || q[0] == '\'') {
			if end := strings.IndexByte(q[1:], q[0]); end >= 0 {
				v.text = q[1 : end+1]
			}
		} else if at := strings.Index(" "+q, " #"); at >= 0 {
			v.text = strings.TrimSpace((" " + q)[:at])
		}
		if strings.Contains(v.text, "$") {
			v = value{kind: computed, at: v.at, why: "another variable"}
		}
		out = append(out, field{m[1], v})
	}
	return out
}
