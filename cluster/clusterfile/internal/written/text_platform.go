package written

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Period is a duration that may have days and weeks, which Go's own syntax lacks.
type Period time.Duration

var PeriodSyntax = regexp.MustCompile(`^(?:([0-9]{1,4})w)?(?:([0-9]{1,5})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,7})m)?(?:([0-9]{1,8})s)?$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Period) UnmarshalText(b []byte) error {
	m := PeriodSyntax.FindSubmatch(b)
	if m == nil || len(b) == 0 {
		return fmt.Errorf("%q is not a length of time", b)
	}
	var total time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if n, err := strconv.ParseInt(string(m[i+1]), 10, 64); err == nil {
			total += time.Duration(n) * unit
		}
	}
	*p = Period(total)
	return nil
}

// Or returns the time, or the default where none was written.
func (p Period) Or(otherwise time.Duration) time.Duration {
	if p == 0 {
		return otherwise
	}
	return time.Duration(p)
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

// Cores is an amount of CPU: 4, 0.5 or 500m.
type Cores float64

var coresSyntax = regexp.MustCompile(`^(?:[0-9]{1,4}(?:\.[0-9]{1,3})?|[0-9]{1,7}m)$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Cores) UnmarshalText(b []byte) error {
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
	*c = Cores(v)
	return nil
}

// AddressPool is a range of addresses, or all of a prefix, kept as it was written.
type AddressPool struct {
	Text     string
	From, To netip.Addr
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *AddressPool) UnmarshalText(b []byte) error {
	if text := strings.TrimSpace(string(b)); strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix != prefix.Masked() {
			return fmt.Errorf("%q is not a range of addresses", b)
		}
		*p = AddressPool{text, prefix.Addr(), LastAddr(prefix)}
		return nil
	}
	var r AddressRange
	if err := r.UnmarshalText(b); err != nil {
		return err
	}
	*p = AddressPool{r.From.String(), r.From, r.To}
	if r.From != r.To {
		p.Text += "-" + r.To.String()
	} else {
		p.Text += "/" + strconv.Itoa(r.From.BitLen())
	}
	return nil
}

func (p AddressPool) Contains(a netip.Addr) bool {
	return p.From.IsValid() && a.BitLen() == p.From.BitLen() && !a.Less(p.From) && !p.To.Less(a)
}

// IsGoodHostname reports whether s can be the hostname of a web page: a name with a domain.
func IsGoodHostname(s string) bool {
	_, err := netip.ParseAddr(s)
	return err != nil && IsDNSName(s) && strings.Contains(s, ".")
}

// ShortForm is a section that may also be written as one value. Keys returns the keys that a
// value of that kind stands for; none if the value is true, which means all defaults.
type ShortForm interface {
	Keys(yamlnode.Kind) (keys []string, ok bool)
}

// unfold turns the short form of a section into its mapping.
func unfold(t *yamlnode.Node, form ShortForm) *yamlnode.Node {
	if !t.Scalar() || t.Kind == yamlnode.Null {
		return t
	}
	keys, ok := form.Keys(t.Kind)
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
func switchedOff(t *yamlnode.Node, form ShortForm) bool {
	keys, ok := form.Keys(t.Kind)
	return t.Kind == yamlnode.Bool && ok && len(keys) == 0 && strings.EqualFold(t.Text, "false")
}

func onText(k yamlnode.Kind, keys ...string) ([]string, bool)   { return keys, k == yamlnode.Text }
func onNumber(k yamlnode.Kind, keys ...string) ([]string, bool) { return keys, k == yamlnode.Number }
func onSwitch(k yamlnode.Kind) ([]string, bool)                 { return nil, k == yamlnode.Bool }

// onSize is for values with a unit: the key's own type reports a number without one.
func onSize(k yamlnode.Kind, keys ...string) ([]string, bool) {
	return keys, k == yamlnode.Text || k == yamlnode.Number
}

func (GPUs) Keys(k yamlnode.Kind) ([]string, bool)         { return onNumber(k, "count") }
func (Image) Keys(k yamlnode.Kind) ([]string, bool)        { return onText(k, "distribution") }
func (NFS) Keys(k yamlnode.Kind) ([]string, bool)          { return onText(k, "server") }
func (Share) Keys(k yamlnode.Kind) ([]string, bool)        { return onText(k, "export") }
func (LoadBalancer) Keys(k yamlnode.Kind) ([]string, bool) { return onText(k, "kind") }
func (Ingress) Keys(k yamlnode.Kind) ([]string, bool)      { return onText(k, "kind") }
func (TLS) Keys(k yamlnode.Kind) ([]string, bool)          { return onText(k, "source") }
func (Rancher) Keys(k yamlnode.Kind) ([]string, bool)      { return onText(k, "hostname") }
func (Monitoring) Keys(k yamlnode.Kind) ([]string, bool)   { return onSwitch(k) }
func (Longhorn) Keys(k yamlnode.Kind) ([]string, bool)     { return onSwitch(k) }
func (Hub) Keys(k yamlnode.Kind) ([]string, bool)          { return onText(k, "hostname") }
func (HubDatabase) Keys(k yamlnode.Kind) ([]string, bool)  { return onText(k, "kind") }
func (HubAuth) Keys(k yamlnode.Kind) ([]string, bool)      { return onText(k, "kind") }
func (CPU) Keys(k yamlnode.Kind) ([]string, bool)          { return onSize(k, "guarantee", "limit") }
func (Memory) Keys(k yamlnode.Kind) ([]string, bool)       { return onSize(k, "guarantee", "limit") }
func (HubHome) Keys(k yamlnode.Kind) ([]string, bool)      { return onSize(k, "size") }
func (HubShare) Keys(k yamlnode.Kind) ([]string, bool)     { return onText(k, "path") }
func (HubScratch) Keys(k yamlnode.Kind) ([]string, bool)   { return onSizeOrSwitch(k) }
func (AuthDummy) Keys(k yamlnode.Kind) ([]string, bool)    { return onSwitch(k) }
func (AuthNative) Keys(k yamlnode.Kind) ([]string, bool)   { return onSwitch(k) }

func (Scratch) Keys(k yamlnode.Kind) ([]string, bool) { return onTextOrSwitch(k, "path") }
func (Fleet) Keys(k yamlnode.Kind) ([]string, bool)   { return onTextOrSwitch(k, "repo") }

func (HubCull) Keys(k yamlnode.Kind) ([]string, bool) {
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

// LastAddr returns the highest address in p.
func LastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := range b {
		free := min(max((i+1)*8-p.Bits(), 0), 8)
		b[i] |= byte(1<<free - 1)
	}
	addr, _ := netip.AddrFromSlice(b) // of the length that AsSlice returned
	return addr
}
