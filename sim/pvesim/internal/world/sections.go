package world

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
)

// Register is a file of sections that the simulator keeps and does nothing with.
type Register struct {
	Path string // in the API
	ID   string // parameter that names a section
	Kind string // as errors name it
	ACL  string // path under which entries may be seen; empty where the schema says it all
}

// Entries are the sections of a register.
func (s *State) Entries(r Register) map[string]map[string][]string {
	if s.registers == nil {
		s.registers = map[string]map[string]map[string][]string{}
	}
	if s.registers[r.Path] == nil {
		s.registers[r.Path] = map[string]map[string][]string{}
	}
	return s.registers[r.Path]
}

// Section is what a call says of one section of a configuration file: its
// parameters but for those that name the section or tell what to do with it, and
// those that are kept elsewhere.
func (c *Call) Section(not ...string) map[string]string {
	out := map[string]string{}
	for k, v := range c.Params {
		if len(v) > 0 && k != "node" && k != "delete" && k != "digest" && !slices.Contains(not, k) {
			out[k] = v[0]
		}
	}
	return out
}

// CheckDigest refuses a change of what has changed since it was read.
func (c *Call) CheckDigest(now string) error {
	if d := c.Param("digest"); d != "" && d != now {
		return answer.Die("detected modified configuration - file changed by other user? Try again.")
	}
	return nil
}

// DigestOf is the digest of a file of sections.
func DigestOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	sum := sha1.Sum(raw)
	return hex.EncodeToString(sum[:])
}

// WithoutEmpty is a section as its file has it: nothing is written of a property without a value
// (PVE/SectionConfig.pm, format_config_line).
func WithoutEmpty(section map[string]string) map[string]string {
	maps.DeleteFunc(section, func(_, v string) bool { return v == "" })
	return section
}

// TypedAs gives a section's value the JSON type that the method which writes it
// takes.
func (s *State) TypedAs(method, key, value string) any {
	m := s.Schema.Methods[method]
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
