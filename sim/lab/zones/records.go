package zones

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Name is one that a cluster wants to be found by.
type Name struct {
	Host     string
	Targets  []string // addresses
	Resource string   // that asks for it: kind/namespace/name
}

// Keeper keeps the records of names as external-dns does, with its registry of TXT records and the
// policy sync. Sources: external-dns, registry/txt/registry.go, registry/mapper/mapper.go,
// plan/plan.go and provider/rfc2136/rfc2136.go.
type Keeper struct {
	Service
	Zones  []string
	Owner  string // of the records that it may change
	Prefix string // of the names of TXT records
}

// set is the records of one name and type.
type set struct {
	zone, host string // without a dot at the end
	kind       uint16
}

// Sync creates, changes and removes records, those of other owners excepted.
func (k Keeper) Sync(ctx context.Context, names []Name) error {
	wanted := map[set]Name{}
	for _, n := range names {
		for _, target := range n.Targets {
			a, err := netip.ParseAddr(target)
			zone := k.zoneOf(n.Host)
			if err != nil || zone == "" {
				continue
			}
			s := set{zone, n.Host, dns.TypeA}
			if a.Is6() {
				s.kind = dns.TypeAAAA
			}
			have, ok := wanted[s]
			if !ok {
				have = Name{Host: n.Host, Resource: n.Resource}
			}
			if !slices.Contains(have.Targets, a.String()) {
				have.Targets = append(have.Targets, a.String())
			}
			wanted[s] = have
		}
	}
	var errs []error
	for _, zone := range k.Zones {
		errs = append(errs, k.sync(ctx, zone, wanted))
	}
	return errors.Join(errs...)
}

// zoneOf is the longest zone that a name is in.
func (k Keeper) zoneOf(host string) string {
	var best string
	for _, z := range k.Zones {
		if (host == z || strings.HasSuffix(host, "."+z)) && len(z) > len(best) {
			best = z
		}
	}
	return best
}

// sync brings one zone up to date.
func (k Keeper) sync(ctx context.Context, zone string, wanted map[set]Name) error {
	all, err := k.Records(ctx, zone)
	if err != nil {
		return err
	}
	have, marks := map[set][]dns.RR{}, map[string][]dns.RR{}
	for _, rr := range all {
		host := strings.TrimSuffix(rr.Header().Name, ".")
		switch rr := rr.(type) {
		case *dns.A, *dns.AAAA, *dns.CNAME:
			s := set{zone, host, rr.Header().Rrtype}
			have[s] = append(have[s], rr)
		case *dns.TXT:
			if strings.HasPrefix(strings.Join(rr.Txt, ""), heritage) {
				marks[host] = append(marks[host], rr)
			}
		}
	}
	taken := map[string]bool{} // names with a record that is not ours
	for s := range have {
		if !k.owns(marks[k.markName(s)]) {
			taken[s.host] = true
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(union(have, wanted)), func(a, b set) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	}) {
		_, want := wanted[s]
		if s.zone != zone || want && taken[s.host] || !want && !k.owns(marks[k.markName(s)]) {
			continue
		}
		remove, insert, err := k.change(s, have[s], marks[k.markName(s)], wanted)
		if err != nil {
			return err
		}
		if len(remove)+len(insert) == 0 {
			continue
		}
		if err := k.Update(ctx, zone, remove, insert); err != nil {
			return err
		}
	}
	return nil
}

func union(have map[set][]dns.RR, wanted map[set]Name) map[set]bool {
	out := map[set]bool{}
	for s := range have {
		out[s] = true
	}
	for s := range wanted {
		out[s] = true
	}
	return out
}

// change says which records of a name go and come.
func (k Keeper) change(s set, have, marks []dns.RR, wanted map[set]Name) (remove, insert []dns.RR, err error) {
	want, ok := wanted[s]
	if !ok {
		return append(slices.Clone(have), marks...), nil, nil
	}
	if sameTargets(have, want.Targets) {
		return nil, nil, nil // a TXT record that is no longer true is corrected only with its name's records
	}
	mark := fmt.Sprintf("%s 0 TXT \"%s,external-dns/owner=%s,external-dns/resource=%s\"", dns.Fqdn(k.markName(s)), heritage, k.Owner, want.Resource)
	lines := []string{mark}
	for _, target := range want.Targets {
		lines = append(lines, fmt.Sprintf("%s 0 %s %s", dns.Fqdn(s.host), dns.TypeToString[s.kind], target))
	}
	for _, line := range lines {
		rr, err := dns.NewRR(line)
		if err != nil {
			return nil, nil, fmt.Errorf("failed to build RR: %w", err)
		}
		insert = append(insert, rr)
	}
	return append(slices.Clone(have), marks...), insert, nil
}

func sameTargets(have []dns.RR, want []string) bool {
	var there []string
	for _, rr := range have {
		switch rr := rr.(type) {
		case *dns.A:
			there = append(there, rr.A.String())
		case *dns.AAAA:
			there = append(there, rr.AAAA.String())
		}
	}
	return slices.Equal(slices.Sorted(slices.Values(there)), slices.Sorted(slices.Values(want)))
}

const heritage = "heritage=external-dns"

// markName is the name of the TXT record that says whose a record is.
func (k Keeper) markName(s set) string {
	return k.Prefix + strings.ToLower(dns.TypeToString[s.kind]) + "-" + s.host
}

func (k Keeper) owns(marks []dns.RR) bool {
	return slices.ContainsFunc(marks, func(rr dns.RR) bool {
		txt, ok := rr.(*dns.TXT)
		return ok && slices.Contains(strings.Split(strings.Join(txt.Txt, ""), ","), "external-dns/owner="+k.Owner)
	})
}
