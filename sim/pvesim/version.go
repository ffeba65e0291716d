package pvesim

import (
	"strings"
)

// absent reports whether a method came later than the version that is simulated.
func (s *state) absent(name string) bool {
	_, path, _ := strings.Cut(name, " ")
	switch {
	case strings.HasPrefix(path, "/cluster/ha/rules"):
		return s.before(9, 0)
	case strings.HasPrefix(path, "/cluster/mapping/dir"):
		return s.before(8, 4)
	}
	return false
}

// contentOfToday refuses a kind of content that could not be uploaded or
// downloaded in the version that is simulated.
func (s *state) contentOfToday(kind string) error {
	if kind == "import" && s.before(8, 4) {
		return badParam("content", "value 'import' does not have a value in the enumeration 'iso, vztmpl'")
	}
	return nil
}
