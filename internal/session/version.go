package session

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Version is the release that this source is, or is the next step from. CHANGELOG.md begins with it.
const Version = "v0.1.0"

const module = "github.com/cps-gpu/homelab"

// Module is the version of this module that Go fetched for this program; empty in a checkout.
func Module() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Replace == nil && m.Version != "(devel)" {
			return m.Version
		}
	}
	return ""
}

// BuildVersion is the version of this program, and how it was built.
func BuildVersion() string {
	version := cmp.Or(Module(), Version+", from a checkout")
	if !strings.HasPrefix(version, Version) {
		version = Version + ", as " + version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && info.Main.Path == module {
				version += ", commit " + s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	return version + ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
