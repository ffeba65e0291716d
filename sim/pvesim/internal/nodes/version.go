package nodes

import (
	"cmp"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func versionInfo(c *world.Call) (any, error) {
	version := c.State.Version
	if c.Param("node") != "" {
		version = versionOf(c)
	}
	major, _, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(strings.TrimPrefix(version, major+"."), ".")
	return map[string]any{"version": version, "release": major + "." + minor, "repoid": "14a22df3"}, nil
}

// versionOf is pve-manager's version on the node of a call: during an upgrade, nodes differ.
func versionOf(c *world.Call) string { return cmp.Or(c.Host().Version, c.State.Version) }
