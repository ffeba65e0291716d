package decode

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Values of the file that are text with a syntax of their own.

// A Cure is an error that knows what to write instead.
type Cure struct{ what, instead string }

func (c Cure) Error() string   { return c.what }
func (c Cure) Instead() string { return c.instead }

// VMIDRange is one VMID, or all from the first to the last.
type VMIDRange struct{ From, To int }

// VMIDs that Proxmox allows.
const (
	MinVMID = 100
	MaxVMID = 999999999
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *VMIDRange) UnmarshalText(b []byte) error {
	first, last, isRange := strings.Cut(string(b), "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.Atoi(strings.TrimSpace(first))
	to, err2 := strconv.Atoi(strings.TrimSpace(last))
	if errors.Join(err1, err2) != nil || to < from || from < MinVMID || to > MaxVMID {
		return fmt.Errorf("%q is not a VMID or a range of them", b)
	}
	*r = VMIDRange{from, to}
	return nil
}

// InRange is one value of a range, and the index of the range.
type InRange[T any] struct {
	Value T
	From  int
}

// Addresses lists the first n addresses of ranges, or none if a range has no value that could be read.
func Addresses(ranges []spec.AddressRange, n int) []InRange[netip.Addr] {
	var out []InRange[netip.Addr]
	for i, r := range ranges {
		if !r.From.IsValid() {
			return nil
		}
		for a := r.From; a.IsValid() && !r.To.Less(a) && len(out) < n; a = a.Next() {
			out = append(out, InRange[netip.Addr]{a, i})
		}
	}
	return out
}

// VMIDs is Addresses for VMIDs.
func VMIDs(ranges []VMIDRange, n int) []InRange[int] {
	var out []InRange[int]
	for i, r := range ranges {
		if r.From == 0 {
			return nil
		}
		for id := r.From; id <= r.To && len(out) < n; id++ {
			out = append(out, InRange[int]{id, i})
		}
	}
	return out
}

var (
	DNSLabel   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	dnsPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
)

func IsDNSName(s string) bool { return len(s) <= 253 && dnsPattern.MatchString(s) }

// CutLast splits s at the last sep; without one, before is s.
func CutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
