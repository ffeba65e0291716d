package unit

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Size is an amount of memory or disk in bytes. It prints as people write it: 16GiB.
type Size int64

// The units. Every spelling (16G, 16GB, 16GiB) means powers of 1024, as everywhere in
// Proxmox.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

var sizeSyntax = regexp.MustCompile(`^([0-9]+)(?:\.([0-9]{1,3}))? ?(?:([KMGT])(?:i?B)?|B)$`)

// ParseSize reads 16GiB, 16G, 512MiB, 1.5TB and the like, and what [Size.String] writes. A
// number without a unit is refused, because it could mean MiB or GiB.
func ParseSize(s string) (Size, error) {
	m := sizeSyntax.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size", s)
	}
	unit := map[string]Size{"": 1, "K": KiB, "M": MiB, "G": GiB, "T": TiB}[m[3]]
	whole, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || unit > 1 && whole >= math.MaxInt64/int64(unit) {
		return 0, fmt.Errorf("the size %q is too large", s)
	}
	thousandths, _ := strconv.ParseInt((m[2] + "000")[:3], 10, 64) // the expression allows three digits
	return Size(whole)*unit + Size(thousandths)*unit/1000, nil
}

// String returns the size in the largest unit that divides it, e.g. 1536MiB.
func (s Size) String() string {
	if n, unit := s.Whole(); unit != "" {
		return strconv.FormatInt(n, 10) + unit + "iB"
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// Whole returns the size as a number of the largest unit that divides it, K, M, G or T;
// "" is bytes.
func (s Size) Whole() (n int64, unit string) {
	n = int64(s)
	for _, next := range []string{"K", "M", "G", "T"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, next
	}
	return n, unit
}

// Approximate returns the size rounded to a tenth: "23.5GiB" for the 25276502016 bytes of memory
// that a host shows of its 24 GiB.
func (s Size) Approximate() string {
	for _, u := range []Size{TiB, GiB, MiB} {
		if s < u {
			continue
		}
		if s >= 100*u {
			return ((s + u/2) / u * u).String()
		}
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(s)/float64(u)), ".0") + strings.TrimPrefix(u.String(), "1")
	}
	return s.String()
}

// GoString makes %#v readable as well.
func (s Size) GoString() string { return s.String() }

// MiB returns the size in MiB, the unit of Proxmox's memory option; rounded down.
func (s Size) MiB() int64 { return int64(s / MiB) }

// GiB returns the size in GiB, the unit of Proxmox's disk sizes; rounded up.
func (s Size) GiB() int64 { return int64((s + GiB - 1) / GiB) }

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, see [ParseSize].
func (s *Size) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSize(strings.TrimSpace(string(b)))
	return err
}
