package addon

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// span is a range of addresses, both ends included.
type span struct{ from, to netip.Addr }

func (s span) String() string {
	return s.from.String() + "-" + s.to.String()
}

// parseSpan reads "10.0.0.120-10.0.0.139", "10.0.0.128/28" or a single address.
func parseSpan(text string) (span, error) {
	text = strings.TrimSpace(text)
	if p, err := netip.ParsePrefix(text); err == nil {
		return span{p.Masked().Addr(), last(p)}, nil
	}
	first, second, ranged := strings.Cut(text, "-")
	if !ranged {
		second = first
	}
	from, err1 := netip.ParseAddr(strings.TrimSpace(first))
	to, err2 := netip.ParseAddr(strings.TrimSpace(second))
	if err := errors.Join(err1, err2); err != nil {
		return span{}, fmt.Errorf("addresses %q: want a range such as 10.0.0.120-10.0.0.139, or a prefix: %w", text, err)
	}
	if from.Zone() != "" || to.Zone() != "" {
		return span{}, fmt.Errorf("addresses %q: an address with a zone is valid on one machine only", text)
	}
	if from.BitLen() != to.BitLen() || to.Less(from) {
		return span{}, fmt.Errorf("addresses %q: the range ends before it begins", text)
	}
	return span{from, to}, nil
}

// last returns the highest address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// pool has the addresses that a load balancer assigns freely, and those reserved for one
// Service.
type pool struct {
	free     []span
	reserved map[string]netip.Addr // by namespace/name of the Service, or "ingress"
}

// newPool removes the reserved addresses from the ranges; otherwise any Service could get one
// of them. Reserved addresses may be outside the ranges.
func newPool(addresses []string, reserved map[string]netip.Addr) (pool, error) {
	p := pool{reserved: reserved}
	var errs []error
	for _, text := range addresses {
		s, err := parseSpan(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, other := range p.free {
			if !s.to.Less(other.from) && !other.to.Less(s.from) {
				errs = append(errs, fmt.Errorf("addresses %s and %s overlap", other, s))
			}
		}
		p.free = append(p.free, s)
	}
	if len(addresses) == 0 {
		errs = append(errs, errors.New("there are no addresses to assign: name a range of the nodes' network that nothing else uses"))
	}
	taken := map[netip.Addr]string{}
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		addr := reserved[name]
		if other, twice := taken[addr]; twice || !addr.IsValid() {
			errs = append(errs, fmt.Errorf("address %s is reserved for %s and for %s", addr, other, name))
		}
		taken[addr] = name
		p.free = without(p.free, addr)
	}
	slices.SortFunc(p.free, func(a, b span) int { return a.from.Compare(b.from) })
	return p, errors.Join(errs...)
}

func without(spans []span, addr netip.Addr) []span {
	var out []span
	for _, s := range spans {
		if addr.Less(s.from) || s.to.Less(addr) {
			out = append(out, s)
			continue
		}
		if s.from != addr {
			out = append(out, span{s.from, addr.Prev()})
		}
		if s.to != addr {
			out = append(out, span{addr.Next(), s.to})
		}
	}
	return out
}

// ingressService is the Service of K3s' Traefik.
const ingressService = "kube-system/traefik"

// service splits the name under which an address is reserved.
func service(name string) (namespace, service string, err error) {
	if name == "ingress" {
		name = ingressService
	}
	namespace, service, ok := strings.Cut(name, "/")
	if !ok || namespace == "" || service == "" {
		return "", "", fmt.Errorf("reserved address for %q: want namespace/name of a Service, or ingress", name)
	}
	return namespace, service, nil
}
