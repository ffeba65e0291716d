package clusterfile

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// period is a length of time that may be days: Go's own syntax ends at hours.
type period time.Duration

var periodSyntax = regexp.MustCompile(`^(?:([0-9]{1,4})w)?(?:([0-9]{1,5})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,7})m)?(?:([0-9]{1,8})s)?$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *period) UnmarshalText(b []byte) error {
	m := periodSyntax.FindSubmatch(b)
	if m == nil || len(b) == 0 {
		return fmt.Errorf("%q is not a length of time", b)
	}
	var total time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if n, err := strconv.ParseInt(string(m[i+1]), 10, 64); err == nil {
			total += time.Duration(n) * unit
		}
	}
	*p = period(total)
	return nil
}

// or returns the time, or the default where none was written.
func (p period) or(otherwise time.Duration) time.Duration {
	if p == 0 {
		return otherwise
	}
	return time.Duration(p)
}

// String returns the time without zeros at its end: 1h, and not 1h0m0s.
func (p period) String() string {
	s := time.Duration(p).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// cores is an amount of CPU: 4, 0.5 or 500m.
type cores float64

var coresSyntax = regexp.MustCompile(`^(?:[0-9]{1,4}(?:\.[0-9]{1,3})?|[0-9]{1,7}m)$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *cores) UnmarshalText(b []byte) error {
	if !coresSyntax.Match(b) {
		return fmt.Errorf("%q is not an amount of CPU", b)
	}
	text, milli := strings.CutSuffix(string(b), "m")
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return err
	}
	if milli {
		v /= 1000
	}
	*c = cores(v)
	return nil
}

// addressPool is a range of addresses, or all of a prefix, kept as it was written.
type addressPool struct {
	text     string
	from, to netip.Addr
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *addressPool) UnmarshalText(b []byte) error {
	if text := strings.TrimSpace(string(b)); strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix != prefix.Masked() {
			return fmt.Errorf("%q is not a range of addresses", b)
		}
		*p = addressPool{text, prefix.Addr(), lastAddr(prefix)}
		return nil
	}
	var r addressRange
	if err := r.UnmarshalText(b); err != nil {
		return err
	}
	*p = addressPool{r.from.String(), r.from, r.to}
	if r.from != r.to {
		p.text += "-" + r.to.String()
	} else {
		p.text += "/" + strconv.Itoa(r.from.BitLen())
	}
	return nil
}

func (p addressPool) contains(a netip.Addr) bool {
	return p.from.IsValid() && a.BitLen() == p.from.BitLen() && !a.Less(p.from) && !p.to.Less(a)
}

// isGoodHostname reports whether s can be where a web page answers: a name with a domain.
func isGoodHostname(s string) bool {
	_, err := netip.ParseAddr(s)
	return err != nil && isDNSName(s) && strings.Contains(s, ".")
}

// shortForm is a raw type that may also be written as one value. keys returns which
// of its keys a value of that kind stands for; none of them: the value is true, and
// all the defaults hold.
type shortForm interface {
	keys(yamlnode.Kind) (keys []string, ok bool)
}

// unfold turns the short form of a raw type into its mapping.
func unfold(t *yamlnode.Node, form shortForm) *yamlnode.Node {
	if !t.Scalar() || t.Kind == yamlnode.Null {
		return t
	}
	keys, ok := form.keys(t.Kind)
	if !ok || len(keys) == 0 && !strings.EqualFold(t.Text, "true") {
		return t
	}
	out := &yamlnode.Node{Kind: yamlnode.Map, At: t.At}
	for _, k := range keys {
		out.Fields = append(out.Fields, yamlnode.Field{Name: k, At: t.At, Value: t})
	}
	return out
}

// switchedOff reports whether t is false where the type may be written as true.
func switchedOff(t *yamlnode.Node, form shortForm) bool {
	keys, ok := form.keys(t.Kind)
	return t.Kind == yamlnode.Bool && ok && len(keys) == 0 && strings.EqualFold(t.Text, "false")
}

func onText(k yamlnode.Kind, keys ...string) ([]string, bool)   { return keys, k == yamlnode.Text }
func onNumber(k yamlnode.Kind, keys ...string) ([]string, bool) { return keys, k == yamlnode.Number }
func onSwitch(k yamlnode.Kind) ([]string, bool)                 { return nil, k == yamlnode.Bool }

// onSize is for values with a unit: a number without one is told so by the key's own type.
func onSize(k yamlnode.Kind, keys ...string) ([]string, bool) {
	return keys, k == yamlnode.Text || k == yamlnode.Number
}

func (rawGPUs) keys(k yamlnode.Kind) ([]string, bool)         { return onNumber(k, "count") }
func (rawImage) keys(k yamlnode.Kind) ([]string, bool)        { return onText(k, "distribution") }
func (rawNFS) keys(k yamlnode.Kind) ([]string, bool)          { return onText(k, "server") }
func (rawShare) keys(k yamlnode.Kind) ([]string, bool)        { return onText(k, "export") }
func (rawLoadBalancer) keys(k yamlnode.Kind) ([]string, bool) { return onText(k, "kind") }
func (rawIngress) keys(k yamlnode.Kind) ([]string, bool)      { return onText(k, "kind") }
func (rawTLS) keys(k yamlnode.Kind) ([]string, bool)          { return onText(k, "source") }
func (rawRancher) keys(k yamlnode.Kind) ([]string, bool)      { return onText(k, "hostname") }
func (rawMonitoring) keys(k yamlnode.Kind) ([]string, bool)   { return onSwitch(k) }
func (rawLonghorn) keys(k yamlnode.Kind) ([]string, bool)     { return onSwitch(k) }
func (rawHub) keys(k yamlnode.Kind) ([]string, bool)          { return onText(k, "hostname") }
func (rawHubDatabase) keys(k yamlnode.Kind) ([]string, bool)  { return onText(k, "kind") }
func (rawHubAuth) keys(k yamlnode.Kind) ([]string, bool)      { return onText(k, "kind") }
func (rawCPU) keys(k yamlnode.Kind) ([]string, bool)          { return onSize(k, "guarantee", "limit") }
func (rawMemory) keys(k yamlnode.Kind) ([]string, bool)       { return onSize(k, "guarantee", "limit") }
func (rawHubHome) keys(k yamlnode.Kind) ([]string, bool)      { return onSize(k, "size") }
func (rawHubShare) keys(k yamlnode.Kind) ([]string, bool)     { return onText(k, "path") }
func (rawHubScratch) keys(k yamlnode.Kind) ([]string, bool)   { return onSizeOrSwitch(k) }
func (rawAuthDummy) keys(k yamlnode.Kind) ([]string, bool)    { return onSwitch(k) }
func (rawAuthNative) keys(k yamlnode.Kind) ([]string, bool)   { return onSwitch(k) }

func (rawScratch) keys(k yamlnode.Kind) ([]string, bool) { return onTextOrSwitch(k, "path") }
func (rawFleet) keys(k yamlnode.Kind) ([]string, bool)   { return onTextOrSwitch(k, "repo") }

func (rawHubCull) keys(k yamlnode.Kind) ([]string, bool) {
	if k == yamlnode.Bool {
		return []string{"enabled"}, true
	}
	return onText(k, "idle")
}

func onTextOrSwitch(k yamlnode.Kind, key string) ([]string, bool) {
	if k == yamlnode.Bool {
		return nil, true
	}
	return onText(k, key)
}

func onSizeOrSwitch(k yamlnode.Kind) ([]string, bool) {
	if k == yamlnode.Bool {
		return nil, true
	}
	return onSize(k, "size")
}
