package pvesim

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// register is a file of sections that the simulator keeps and does nothing with.
type register struct {
	path string // in the API
	id   string // parameter that names a section
	kind string // as errors name it
	acl  string // path under which entries may be seen; empty where the schema says it all
}

// entries are the sections of a register.
func (s *state) entries(r register) map[string]map[string][]string {
	if s.registers == nil {
		s.registers = map[string]map[string]map[string][]string{}
	}
	if s.registers[r.path] == nil {
		s.registers[r.path] = map[string]map[string][]string{}
	}
	return s.registers[r.path]
}

// section is what a call says of one section of a configuration file: its
// parameters but for those that name the section or tell what to do with it, and
// those that are kept elsewhere.
func (c *call) section(not ...string) map[string]string {
	out := map[string]string{}
	for k, v := range c.p {
		if len(v) > 0 && k != "node" && k != "delete" && k != "digest" && !slices.Contains(not, k) {
			out[k] = v[0]
		}
	}
	return out
}

// checkDigest refuses a change of what has changed since it was read.
func (c *call) checkDigest(now string) error {
	if d := c.param("digest"); d != "" && d != now {
		return die("detected modified configuration - file changed by other user? Try again.")
	}
	return nil
}

// digestOf is the digest of a file of sections.
func digestOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	sum := sha1.Sum(raw)
	return hex.EncodeToString(sum[:])
}

// withoutEmpty is a section as its file has it: nothing is written of a property without a value
// (PVE/SectionConfig.pm, format_config_line).
func withoutEmpty(section map[string]string) map[string]string {
	maps.DeleteFunc(section, func(_, v string) bool { return v == "" })
	return section
}

// typedAs gives a section's value the JSON type that the method which writes it
// takes.
func (s *state) typedAs(method, key, value string) any {
	m := s.schema.Methods[method]
	if m == nil {
		return value
	}
	p := m.Parameters[key]
	if p != nil && (p.Type == "boolean" || p.Type == "integer") {
		if n, err := strconv.Atoi(value); err == nil {
			return n
		}
	}
	return value
}
