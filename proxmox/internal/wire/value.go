// Package wire reads and writes values the way Proxmox's API does: numbers and switches that
// come as text, the many values of one option in a line (property strings), sizes of disks and of memory.
package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Int is a whole number that Proxmox writes as 1, "1" or 1.0.
type Int int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *Int) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if s == "null" || s == "" {
		*n = 0
		return nil
	}
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		*n = Int(v)
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return fmt.Errorf("%s is not a number", b)
	}
	*n = Int(f)
	return nil
}

// Bool is a switch that Proxmox writes as 1, "1", true or leaves out.
type Bool bool

// UnmarshalJSON implements json.Unmarshaler.
func (v *Bool) UnmarshalJSON(b []byte) error {
	switch strings.Trim(string(b), `"`) {
	case "1", "true":
		*v = true
	case "0", "false", "null", "":
		*v = false
	default:
		return fmt.Errorf("%s is not a switch", b)
	}
	return nil
}

// Text is text that Proxmox sometimes writes as a number.
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(b []byte) error {
	*t = Text(Unquote(json.RawMessage(b)))
	return nil
}

// Number parses a whole number. It returns otherwise if s is not one.
func Number(s string, otherwise int) int {
	if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil {
		return n
	}
	return otherwise
}

// Unquote returns a JSON string's text, and any other JSON unchanged.
func Unquote(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// ZeroOne formats a switch that is always written.
func ZeroOne(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// Positive formats a number above zero, and returns "" for any other.
func Positive(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// OnOff formats a switch; it returns "" if the switch is off, which is the default.
func OnOff(on bool) string {
	if on {
		return "1"
	}
	return ""
}
