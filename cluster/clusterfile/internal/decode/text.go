package decode

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Values of the file that are text with a syntax of their own.

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
func VMIDs(ranges []spec.VMIDRange, n int) []InRange[int] {
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

// IsPort reports whether a text is the number of a port.
func IsPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n < 65536
}
