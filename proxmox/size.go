package proxmox

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes that prints as people write it: 16GiB.
type Size int64

// The units of Size. Proxmox counts in powers of 1024 everywhere.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

// String returns the size in the largest unit that divides it: "1536MiB".
func (s Size) String() string {
	for _, u := range []struct {
		size Size
		name string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// About returns the size as a person would say it, to a tenth: "23.5GiB" for the
// 25276502016 bytes of memory that a host shows of its 24 GiB.
func (s Size) About() string {
	for _, u := range []Size{TiB, GiB, MiB} {
		if s < u {
			continue
		}
		if s%u == 0 || s >= 100*u {
			return ((s + u/2) / u * u).String()
		}
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(s)/float64(u)), ".0") + strings.TrimPrefix(u.String(), "1")
	}
	return s.String()
}

// GoString makes %#v readable as well.
func (s Size) GoString() string { return s.String() }

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, see [ParseSize].
func (s *Size) UnmarshalText(b []byte) error {
	v, err := ParseSize(string(b))
	if err != nil {
		return err
	}
	*s = v
	return nil
}

// ParseSize reads "16GiB", "16GB", "16G", "512M", "1.5TiB", "4096" (bytes), and
// what [Size.String] writes. Like Proxmox, it takes G, GB and GiB all as 1024³.
func ParseSize(s string) (Size, error) {
	text := strings.TrimSpace(s)
	number := text[:len(text)-len(strings.TrimLeft(text, "0123456789."))]
	unit := Size(1)
	switch strings.ToLower(strings.TrimSpace(text[len(number):])) {
	case "", "b":
	case "k", "kb", "kib":
		unit = KiB
	case "m", "mb", "mib":
		unit = MiB
	case "g", "gb", "gib":
		unit = GiB
	case "t", "tb", "tib":
		unit = TiB
	default:
		return 0, fmt.Errorf("size %q: unit is none of KiB, MiB, GiB, TiB", s)
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64/int64(unit) {
			return 0, fmt.Errorf("size %q is out of range", s)
		}
		return Size(n) * unit, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f < 0 || math.IsNaN(f) || f*float64(unit) >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q is not a number with a unit, such as 16GiB", s)
	}
	return Size(f * float64(unit)), nil
}

// diskSize writes s as a drive option does: "64M", "500G".
func (s Size) diskSize() string {
	for _, u := range []struct {
		size Size
		name string
	}{{TiB, "T"}, {GiB, "G"}, {MiB, "M"}, {KiB, "K"}} {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// gib writes s in GiB, as "STORAGE:SIZE" wants it for a new disk.
func (s Size) gib() string {
	return strconv.FormatFloat(float64(s)/float64(GiB), 'f', -1, 64)
}

// mib returns s in MiB, rounded up: the unit of a VM's memory.
func (s Size) mib() int64 { return int64((s + MiB - 1) / MiB) }
