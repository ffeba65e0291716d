package decode

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Period is a duration that may have days and weeks, which Go's own syntax lacks.
type Period time.Duration

var PeriodSyntax = regexp.MustCompile(`^(?:([0-9]{1,4})w)?(?:([0-9]{1,5})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,7})m)?(?:([0-9]{1,8})s)?$`)

// ParsePeriod reads a length of time, e.g. 1w2d3h.
func ParsePeriod(text string) (time.Duration, error) {
	m := PeriodSyntax.FindStringSubmatch(text)
	if m == nil || text == "" {
		return 0, fmt.Errorf("%q is not a length of time", text)
	}
	var total time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if n, err := strconv.ParseInt(m[i+1], 10, 64); err == nil {
			total += time.Duration(n) * unit
		}
	}
	return total, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Period) UnmarshalText(b []byte) error {
	d, err := ParsePeriod(string(b))
	*p = Period(d)
	return err
}

// String returns the time without trailing zeros: 1h, not 1h0m0s.
func (p Period) String() string {
	s := time.Duration(p).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// IsGoodHostname reports whether s can be the hostname of a web page: a name with a domain.
func IsGoodHostname(s string) bool {
	_, err := netip.ParseAddr(s)
	return err != nil && IsDNSName(s) && strings.Contains(s, ".")
}
