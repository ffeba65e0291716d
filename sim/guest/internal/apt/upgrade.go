package apt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
)

// upgrade brings everything that is not held to the newest version, and what is named; with new
// also packages that this needs, such as a kernel. What dpkg has left half-configured is finished.
func (a *apt) upgrade(ctx context.Context, named []string, new, changeHeld bool) int {
	all := disk.Database(a.disk)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r, ok := a.find(name)
		switch {
		case slices.Contains(named, name) || !ok || r.Versions[0] == all[name].Version && !all[name].Half:
		case all[name].Held && !all[name].Half:
		case strings.HasPrefix(name, "linux-image-") && !new:
		default:
			named = append(named, name)
		}
	}
	return a.install(ctx, named, changeHeld)
}

// show prints what apt-get --simulate does: seen of apt 2.6.1 and 3.0.4. A package that is unpacked and
// not configured has no line Inst.
func (a *apt) show(want map[string]string) {
	all := disk.Database(a.disk)
	names := slices.Sorted(maps.Keys(want))
	upgraded, added := 0, 0
	for _, name := range names {
		switch old, there := all[name]; {
		case !there:
			added++
		case old.Version != want[name]:
			upgraded++
		}
	}
	a.p.Printf("%d upgraded, %d newly installed, 0 to remove and 0 not upgraded.\n", upgraded, added)
	for _, verb := range []string{"Inst", "Conf"} {
		for _, name := range names {
			old, there := all[name]
			if verb == "Inst" && there && old.Version == want[name] {
				continue
			}
			was := ""
			if there && verb == "Inst" {
				was = " [" + old.Version + "]"
			}
			a.p.Printf("%s %s%s (%s%s [amd64])\n", verb, name, was, want[name], a.source(name))
		}
	}
}

// source is how apt names where a package comes from.
func (a *apt) source(name string) string {
	r, _ := a.release(name)
	switch o := image.DistroOf(a.p.Sys.Root()); r.Origin {
	case "ubuntu":
		return fmt.Sprintf(" Ubuntu:24.04/%s-updates", o.Release)
	case "debian":
		return " Debian:13.6/stable"
	}
	return ""
}
