package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/suggest"
)

// taintError says what is wrong with a taint, and what to write instead.
type taintError struct{ what, instead string }

func (e taintError) Error() string   { return e.what }
func (e taintError) Instead() string { return e.instead }

// ParseTaint reads key=value:Effect or key:Effect.
func ParseTaint(s string) (Taint, error) {
	effects := []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
	at := strings.LastIndexByte(s, ':')
	rest, effect := s[:max(at, 0)], s[at+1:]
	key, value, _ := strings.Cut(rest, "=")
	t := Taint{Key: key, Value: value, Effect: effect}
	switch {
	case at < 0:
		return Taint{}, taintError{fmt.Sprintf("%q is not a taint", s), "write key=value:NoSchedule, with NoSchedule, PreferNoSchedule or NoExecute"}
	case !slices.Contains(effects, effect):
		return Taint{}, taintError{fmt.Sprintf("taint %q has the unknown effect %q", s, effect), suggest.Cure(effect, effects)}
	case !IsLabelKey(key):
		return Taint{}, taintError{fmt.Sprintf("taint %q has the invalid key %q", s, key), "write letters, digits, - _ and . after an optional domain and slash, e.g. example.com/dedicated"}
	case !IsLabelValue(value):
		return Taint{}, taintError{fmt.Sprintf("taint %q has the invalid value %q", s, value), "write at most 63 letters, digits, - _ and ."}
	}
	return t, nil
}

// MarshalText implements encoding.TextMarshaler.
func (t Taint) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Taint) UnmarshalText(b []byte) error {
	var err error
	*t, err = ParseTaint(string(b))
	return err
}
