package cluster

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// Size is an amount of memory or disk in bytes. It prints as 16GiB.
type Size int64

// The units. Every spelling (16G, 16GB, 16GiB) means powers of 1024, as in
// Proxmox's own configuration.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

var sizeSyntax = regexp.MustCompile(`^([0-9]+)(?:\.([0-9]{1,3}))? ?([KMGT])(?:i?B)?$`)

// ParseSize reads 16GiB, 16G, 512MiB, 1.5TB and the like. A number without a
// unit is refused: nobody can know whether it was meant as MiB or GiB.
func ParseSize(s string) (Size, error) {
	m := sizeSyntax.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size", s)
	}
	unit := map[string]Size{"K": KiB, "M": MiB, "G": GiB, "T": TiB}[m[3]]
	whole, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || whole >= math.MaxInt64/int64(unit) {
		return 0, fmt.Errorf("%q is more than can be counted", s)
	}
	total := Size(whole) * unit
	if m[2] == "" {
		return total, nil
	}
	thousandths, err := strconv.ParseInt((m[2] + "00")[:3], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: %w", s, err)
	}
	return total + Size(thousandths)*unit/1000, nil
}

// String returns the size in the greatest unit that has no fraction, e.g. 1536MiB.
func (s Size) String() string { return proxmox.Size(s).String() }

// MiB returns the size in MiB, the unit of Proxmox's memory option; a rest is dropped.
func (s Size) MiB() int64 { return int64(s / MiB) }

// GiB returns the size in GiB, the unit of Proxmox's disk sizes; a rest counts as one more.
func (s Size) GiB() int64 { return int64((s + GiB - 1) / GiB) }

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(b []byte) error {
	v, err := ParseSize(strings.TrimSpace(string(b)))
	if err != nil {
		return err
	}
	*s = v
	return nil
}
