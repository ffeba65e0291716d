package nodes

import (
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func versionInfo(c *world.Call) (any, error) {
	major, _, _ := strings.Cut(c.State.Version, ".")
	minor, _, _ := strings.Cut(strings.TrimPrefix(c.State.Version, major+"."), ".")
	return map[string]any{"version": c.State.Version, "release": major + "." + minor, "repoid": "14a22df3"}, nil
}
