package apt

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// exclusivePackage are packages of NVIDIA's driver of which dpkg has one at a time: each
// provides a name, which is what is before its branch, and conflicts with it
// (debian/control of Canonical's nvidia-graphics-drivers, branch 580-server). The modules
// that Canonical has built (linux-modules-nvidia-…) are none of them.
var exclusivePackage = regexp.MustCompile(`^((?:lib)?nvidia-(?:dkms|kernel-source|kernel-common|utils|compute-utils|cfg1|compute|decode|encode))-\d+(?:-server)?(?:-open)?$`)

// exclusiveName is the name that an exclusive package provides, and "" of others.
func exclusiveName(name string) string {
	m := exclusivePackage.FindStringSubmatch(name)
	switch {
	case m == nil:
		return ""
	case m[1] == "nvidia-dkms":
		return "nvidia-dkms-kernel"
	}
	return m[1]
}

// giveWay lists what goes for what is wanted: what conflicts with it, and who needs that.
// apt removes nothing by itself that is held or asked for.
func (a *apt) giveWay(want map[string]string, asked, gone []string) (given []string, problem string) {
	all := disk.Database(a.disk)
	stays := func(name string) bool {
		_, there := all[name]
		_, wanted := want[name]
		return there && !wanted && !slices.Contains(gone, name) && !slices.Contains(given, name)
	}
	goes := func(name, why string) bool {
		if all[name].Held || slices.Contains(asked, name) {
			problem = fmt.Sprintf(" %s\nE: Unable to correct problems, you have held broken packages.", why)
			return false
		}
		given = append(given, name)
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		for _, other := range slices.Sorted(maps.Keys(all)) {
			taken := exclusiveName(name)
			if taken == "" || other == name || exclusiveName(other) != taken || !stays(other) {
				continue
			}
			if !goes(other, fmt.Sprintf("%s : Conflicts: %s", name, taken)) {
				return nil, problem
			}
		}
		for other := range want { // neither is there yet
			if taken := exclusiveName(name); taken != "" && other < name && exclusiveName(other) == taken {
				return nil, fmt.Sprintf(" %s : Conflicts: %s\nE: Unable to correct problems, you have held broken packages.", name, taken)
			}
		}
	}
	for i := 0; i < len(given); i++ {
		for _, other := range slices.Sorted(maps.Keys(all)) {
			if r, known := a.release(other); known && slices.Contains(r.Needs, given[i]) && stays(other) {
				if !goes(other, fmt.Sprintf("%s : Depends: %s", other, given[i])) {
					return nil, problem
				}
			}
		}
	}
	return given, ""
}
