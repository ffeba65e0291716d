package spec

import "strconv"

// Switch is on, off, or not said: then it has its default.
type Switch int8

// On and Off say what the default does not.
const (
	On  Switch = 1
	Off Switch = -1
)

// SwitchOf returns On or Off.
func SwitchOf(on bool) Switch {
	if on {
		return On
	}
	return Off
}

// IsOn reports whether it is on. One that was not said is off until its default is filled in.
func (s Switch) IsOn() bool { return s == On }

// Or returns the default of a switch that was not said.
func (s Switch) Or(on bool) Switch {
	if s == 0 {
		return SwitchOf(on)
	}
	return s
}

// UnmarshalText reads true or false.
func (s *Switch) UnmarshalText(b []byte) error {
	*s = SwitchOf(string(b) == "true")
	return nil
}

// String returns true or false.
func (s Switch) String() string { return strconv.FormatBool(s.IsOn()) }

// MarshalJSON writes true or false.
func (s Switch) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }
