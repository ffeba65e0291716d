package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
)

// ParseProps reads a property string ("virtio,bridge=vmbr0") into its keys, with
// aliases resolved. An error has Proxmox's text.
func ParseProps(keys map[string]*Property, s string) (map[string]string, error) {
	out := map[string]string{}
	put := func(k, v string) error {
		if _, twice := out[k]; twice {
			return fmt.Errorf("duplicate key in comma-separated list property: %s", k)
		}
		out[k] = v
		return nil
	}
	for part := range strings.SplitSeq(s, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		k, v, hasKey := strings.Cut(part, "=")
		switch {
		case !hasKey:
			k, v = defaultKey(keys), part
			if k == "" {
				return nil, fmt.Errorf("value without key, but schema does not define a default key")
			}
		case k == "" || v == "":
			return nil, fmt.Errorf("missing key in comma-separated list property")
		}
		if p := keys[k]; p != nil && p.Alias != "" {
			if p.KeyAlias != "" {
				if err := put(p.KeyAlias, k); err != nil {
					return nil, err
				}
			}
			k = p.Alias
		}
		if p := keys[k]; p != nil && p.Type == "boolean" {
			v = ParseBool(v)
		}
		if err := put(k, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ParseBool is how booleans inside property strings are read; what is not a boolean
// stays as it is, for the check to name it.
func ParseBool(v string) string {
	switch strings.ToLower(v) {
	case "1", "on", "yes", "true":
		return "1"
	case "0", "off", "no", "false":
		return "0"
	}
	return v
}

func defaultKey(keys map[string]*Property) string {
	for k, p := range keys {
		if p.DefaultKey != 0 {
			return k
		}
	}
	return ""
}

// FormatProps writes a property string: the default key first and bare, then those
// that must be there, then the others, each sorted. Sizes are written in the largest
// unit that fits.
func FormatProps(keys map[string]*Property, in map[string]string) string {
	var parts []string
	first := defaultKey(keys)
	print := func(k string) string {
		if p := keys[k]; p != nil && p.Format.Name == "disk-size" {
			return FormatSize(ParseSize(in[k]))
		}
		return in[k]
	}
	if _, ok := in[first]; ok {
		parts = append(parts, print(first))
	}
	for _, required := range []bool{true, false} {
		for _, k := range slices.Sorted(maps.Keys(in)) {
			if p := keys[k]; k != first && (p != nil && !p.optional()) == required {
				parts = append(parts, k+"="+print(k))
			}
		}
	}
	return strings.Join(parts, ",")
}

// CheckProps checks a property string against its format; the empty text is valid.
func CheckProps(path, format string, keys map[string]*Property, s string) string {
	in, err := ParseProps(keys, s)
	if err != nil {
		return err.Error() + "\n"
	}
	p := make(request.Params, len(in))
	for k, v := range in {
		p[k] = []string{v}
	}
	errs := map[string]string{}
	checkObject(path, keys, p, errs)
	if len(errs) == 0 {
		if check := validators[format]; check != nil {
			return check(in)
		}
		return ""
	}
	var b strings.Builder
	b.WriteString("format error\n")
	for _, k := range slices.Sorted(maps.Keys(errs)) {
		b.WriteString(k + ": " + errs[k] + "\n")
	}
	return b.String()
}
