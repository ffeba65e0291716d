package spec

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// AddressRange is one address, or all from the first to the last.
type AddressRange struct{ From, To netip.Addr }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *AddressRange) UnmarshalText(b []byte) error {
	first, last, isRange := strings.Cut(string(b), "-")
	from, err := netip.ParseAddr(strings.TrimSpace(first))
	if err != nil || from.Zone() != "" {
		return fmt.Errorf("%q is not an address or a range of them", b)
	}
	to := from
	if last = strings.TrimSpace(last); isRange {
		if !strings.ContainsAny(last, ".:") && from.Is4() { // 10.0.0.11-13
			last = from.String()[:strings.LastIndexByte(from.String(), '.')+1] + last
		}
		if to, err = netip.ParseAddr(last); err != nil || to.Zone() != "" || to.Is4() != from.Is4() {
			return fmt.Errorf("%q is not an address or a range of them", b)
		}
	}
	if to.Less(from) {
		return fmt.Errorf("%q runs backwards", b)
	}
	*r = AddressRange{from, to}
	return nil
}

// String returns 10.0.0.11, or 10.0.0.11-10.0.0.13.
func (r AddressRange) String() string {
	if r.From == r.To {
		return r.From.String()
	}
	return r.From.String() + "-" + r.To.String()
}

// AddressPool is a range of addresses, or all of a prefix.
type AddressPool struct {
	From, To netip.Addr
	prefix   bool // as which it was written
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *AddressPool) UnmarshalText(b []byte) error {
	if text := strings.TrimSpace(string(b)); strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix != prefix.Masked() {
			return fmt.Errorf("%q is not a range of addresses", b)
		}
		*p = AddressPool{prefix.Addr(), LastAddr(prefix), true}
		return nil
	}
	var r AddressRange
	if err := r.UnmarshalText(b); err != nil {
		return err
	}
	*p = AddressPool{r.From, r.To, r.From == r.To}
	return nil
}

// String returns the pool as it was written; a single address is a prefix.
func (p AddressPool) String() string {
	if !p.prefix && p.From != p.To {
		return p.From.String() + "-" + p.To.String()
	}
	bits := p.From.BitLen()
	for bits > 0 && LastAddr(netip.PrefixFrom(p.From, bits)) != p.To {
		bits--
	}
	return netip.PrefixFrom(p.From, bits).String()
}

// MarshalText implements encoding.TextMarshaler.
func (p AddressPool) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Contains reports whether an address is in the pool.
func (p AddressPool) Contains(a netip.Addr) bool {
	return p.From.IsValid() && a.BitLen() == p.From.BitLen() && !a.Less(p.From) && !p.To.Less(a)
}

// Ranges are the networks of pods, or of services: one, or one of each family. The first is of the family
// that Kubernetes prefers.
type Ranges []netip.Prefix

// UnmarshalText implements encoding.TextUnmarshaler: networks with a comma between them, as K3s has them.
func (r *Ranges) UnmarshalText(b []byte) error {
	var all Ranges
	for text := range strings.SplitSeq(string(b), ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%q is not a network", strings.TrimSpace(text))
		}
		all = append(all, p)
	}
	*r = all
	return nil
}

// String returns the networks with a comma between them.
func (r Ranges) String() string {
	var out []string
	for _, p := range r {
		out = append(out, p.String())
	}
	return strings.Join(out, ",")
}

// MarshalText implements encoding.TextMarshaler.
func (r Ranges) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Contains reports whether an address is in one of the networks.
func (r Ranges) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(r, func(p netip.Prefix) bool { return p.Contains(a) })
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

// Ranges are the addresses that the load balancer assigns, as they were written.
func (l *LoadBalancer) Ranges() []string {
	var out []string
	for _, p := range l.Addresses {
		out = append(out, p.String())
	}
	return out
}
