package pvesim

import "strings"

func (c *call) versionInfo() (any, error) {
	major, _, _ := strings.Cut(c.s.version, ".")
	minor, _, _ := strings.Cut(strings.TrimPrefix(c.s.version, major+"."), ".")
	return map[string]any{"version": c.s.version, "release": major + "." + minor, "repoid": "14a22df3"}, nil
}
