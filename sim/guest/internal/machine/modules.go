package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// AddModules puts modules of one version among those that the kernel has loaded.
func (s *System) AddModules(version string, names ...string) {
	s.mu.Lock()
	for _, name := range names {
		s.modules[name] = version
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.modules)) {
		fmt.Fprintf(&b, "%s 16384 0 - Live 0x0000000000000000\n", name)
	}
	s.mu.Unlock()
	s.Put("/proc/modules", b.String(), 0o444)
}

// Modules are the kernel's modules with their versions.
func (s *System) Modules() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.modules)
}
