package release

import (
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Absent reports whether a method came later than the version that is simulated.
func Absent(s *world.State, name string) bool {
	_, path, _ := strings.Cut(name, " ")
	switch {
	case strings.HasPrefix(path, "/cluster/ha/rules"):
		return Before(s, 9, 0)
	case strings.HasPrefix(path, "/cluster/mapping/dir"):
		return Before(s, 8, 4)
	}
	return false
}

// ContentOfToday refuses a kind of content that could not be uploaded or
// downloaded in the version that is simulated.
func ContentOfToday(s *world.State, kind string) error {
	if kind == "import" && Before(s, 8, 4) {
		return answer.BadParam("content", "value 'import' does not have a value in the enumeration 'iso, vztmpl'")
	}
	return nil
}
