package converge

import (
	"fmt"
	"strings"
)

// Effect says what it takes to bring a field to its wanted value. A greater effect is more
// disruptive.
type Effect int

const (
	// Update changes something while it is in use.
	Update Effect = iota
	// Restart takes effect only after a stop and a start.
	Restart
	// Create creates or starts something; its dependents cannot be checked before.
	Create
	// Replace destroys and recreates the thing.
	Replace
	// Remove removes something that should not exist.
	Remove
)

// String returns the effect's name in a plan.
func (e Effect) String() string {
	switch e {
	case Restart:
		return "needs a restart"
	case Create:
		return "create"
	case Replace:
		return "needs a replacement"
	case Remove:
		return "remove"
	default:
		return "update"
	}
}

// MarshalText implements encoding.TextMarshaler.
func (e Effect) MarshalText() ([]byte, error) {
	return []byte(map[Effect]string{Update: "update", Restart: "restart", Create: "create", Replace: "replace", Remove: "remove"}[e]), nil
}

// Field is one difference.
type Field struct {
	Path   string `json:"path"`           // what differs, e.g. "memory" or "disk/scratch/size"; may be empty for the thing itself
	Have   string `json:"have"`           // what is there; empty when nothing is
	Want   string `json:"want"`           // what was asked for; empty when nothing was
	Effect Effect `json:"effect"`         // what it takes
	Note   string `json:"note,omitempty"` // why, when it is not plain
}

// String returns e.g. "memory: 128GiB → 96GiB (needs a restart)".
func (f Field) String() string {
	var b strings.Builder
	if f.Path != "" {
		b.WriteString(f.Path)
		b.WriteString(": ")
	}
	switch {
	case f.Have == "":
		b.WriteString(f.Want)
	case f.Want == "":
		fmt.Fprintf(&b, "%s → (none)", f.Have)
	default:
		fmt.Fprintf(&b, "%s → %s", f.Have, f.Want)
	}
	if f.Effect == Restart || f.Effect == Replace {
		fmt.Fprintf(&b, " (%s)", f.Effect)
	}
	if f.Note != "" {
		fmt.Fprintf(&b, " [%s]", f.Note)
	}
	return b.String()
}

// Diff is every difference. An empty Diff means that nothing is to be done.
type Diff []Field

// Empty reports whether nothing differs.
func (d Diff) Empty() bool { return len(d) == 0 }

// Effect returns the greatest effect of all fields.
func (d Diff) Effect() Effect {
	var deepest Effect
	for _, f := range d {
		deepest = max(deepest, f.Effect)
	}
	return deepest
}

// String joins the fields with "; ".
func (d Diff) String() string {
	s := make([]string, len(d))
	for i, f := range d {
		s[i] = f.String()
	}
	return strings.Join(s, "; ")
}

// WithPrefix returns d with prefix and a slash before each path.
func (d Diff) WithPrefix(prefix string) Diff {
	out := make(Diff, len(d))
	for i, f := range d {
		f.Path = strings.TrimSuffix(prefix+"/"+f.Path, "/")
		out[i] = f
	}
	return out
}

// Compare returns no field if have equals want, else one.
func Compare[T comparable](path string, have, want T, effect Effect) Diff {
	if have == want {
		return nil
	}
	return Diff{{Path: path, Have: text(have), Want: text(want), Effect: effect}}
}

// Missing is the difference of something that does not exist; want describes it in a few
// words.
func Missing(want string) Diff { return Diff{{Want: want, Effect: Create}} }

// DiffUnwanted is the difference of something that exists and should not; have describes it in a
// few words.
func DiffUnwanted(have string) Diff { return Diff{{Have: have, Effect: Remove}} }

// text prints a value so that the empty string differs from nothing.
func text(v any) string {
	s := fmt.Sprint(v)
	if s == "" {
		return `""`
	}
	return s
}
