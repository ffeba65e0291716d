package wire

import (
	"fmt"
	"strings"
)

// Property is one key=value of a property string. Key is empty for a value without a key, such as
// the volume in "local-lvm:vm-100-disk-0,size=32G".
type Property struct{ Key, Value string }

// Properties is a property string, Proxmox's one-line format of a device. The order is kept.
type Properties []Property

// ParseProperties parses a property string. Proxmox allows one part without a key; its meaning
// depends on the device.
func ParseProperties(s string) (Properties, error) {
	var out Properties
	if s == "" {
		return nil, nil
	}
	bare := false
	for part := range strings.SplitSeq(s, ",") {
		key, value, found := strings.Cut(part, "=")
		if !found {
			key, value = "", part
			if bare {
				return nil, fmt.Errorf("property string %q: more than one value without a key", s)
			}
			bare = true
		} else if key == "" {
			return nil, fmt.Errorf("property string %q: a part begins with =", s)
		}
		if part == "" {
			return nil, fmt.Errorf("property string %q: an empty part", s)
		}
		out = append(out, Property{key, value})
	}
	return out, nil
}

// String returns the property string.
func (p Properties) String() string {
	parts := make([]string, len(p))
	for i, kv := range p {
		if kv.Key == "" {
			parts[i] = kv.Value
		} else {
			parts[i] = kv.Key + "=" + kv.Value
		}
	}
	return strings.Join(parts, ",")
}

// Get returns the value of key, or "" if there is none.
func (p Properties) Get(key string) string {
	for _, kv := range p {
		if kv.Key == key {
			return kv.Value
		}
	}
	return ""
}

// GetFirst returns the value of the first of keys that exists; "" as a key is the part without a key.
func (p Properties) GetFirst(keys ...string) string {
	for _, k := range keys {
		if v := p.Get(k); v != "" {
			return v
		}
	}
	return ""
}

// With returns p with key set to value, in its old place or at the end; an empty value removes the
// key.
func (p Properties) With(key, value string) Properties {
	out := make(Properties, 0, len(p)+1)
	done := value == ""
	for _, kv := range p {
		if kv.Key != key {
			out = append(out, kv)
		} else if !done {
			out = append(out, Property{key, value})
			done = true
		}
	}
	if !done {
		out = append(out, Property{key, value})
	}
	return out
}

// Bool parses a switch as Proxmox does: 1, on, yes, true.
func (p Properties) Bool(key string) bool {
	switch strings.ToLower(p.Get(key)) {
	case "1", "on", "yes", "true":
		return true
	}
	return false
}

// ParseLenient parses a property string that Proxmox has accepted. If it cannot be parsed, the result is
// empty.
func ParseLenient(s string) Properties {
	p, _ := ParseProperties(s)
	return p
}
