package proxmox

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// flexInt is a whole number that Proxmox writes as 1, "1" or 1.0.
type flexInt int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *flexInt) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if s == "null" || s == "" {
		*n = 0
		return nil
	}
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		*n = flexInt(v)
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return fmt.Errorf("%s is not a number", b)
	}
	*n = flexInt(f)
	return nil
}

// flexBool is a switch that Proxmox writes as 1, "1", true or leaves out.
type flexBool bool

// UnmarshalJSON implements json.Unmarshaler.
func (v *flexBool) UnmarshalJSON(b []byte) error {
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

// flexText is text that Proxmox sometimes writes as a number.
type flexText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *flexText) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = ""
		return nil
	}
	*t = flexText(unquote(json.RawMessage(b)))
	return nil
}

func itoa(n int) string { return strconv.Itoa(n) }
