package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube/verify"
)

// namesLead asks a server of each zone, and not a resolver that remembers, where the names of Ingresses and routes lead.
func (e ExternalDNS) namesLead(ctx context.Context, c verify.Cluster) (string, error) {
	names, err := c.Ways(ctx)
	if err != nil {
		return "", err
	}
	return e.compare(names, func(zone, host string) ([]netip.Addr, error) {
		at, err := e.server(ctx, zone)
		if err != nil {
			return nil, err
		}
		asked := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, at)
		}}
		return asked.LookupNetIP(ctx, "ip", host+".")
	})
}

// server is a name server of a zone.
func (e ExternalDNS) server(ctx context.Context, zone string) (string, error) {
	if e.RFC2136 != nil {
		return e.RFC2136.Server, nil
	}
	all, err := net.DefaultResolver.LookupNS(ctx, zone)
	if err != nil {
		return "", fmt.Errorf("no name server of %s is known here: %w", zone, err)
	}
	return net.JoinHostPort(strings.TrimSuffix(all[0].Host, "."), "53"), nil
}

// compare compares names of the zones with what lookup finds.
func (e ExternalDNS) compare(names map[string]string, lookup func(zone, host string) ([]netip.Addr, error)) (string, error) {
	var errs []error
	count := 0
	for _, host := range slices.Sorted(maps.Keys(names)) {
		i := slices.IndexFunc(e.Zones, func(z string) bool { return host == z || strings.HasSuffix(host, "."+z) })
		want, err := netip.ParseAddr(names[host])
		if i < 0 || err != nil || strings.HasPrefix(host, "*") {
			continue
		}
		count++
		found, err := lookup(e.Zones[i], host)
		missing := new(net.DNSError)
		switch {
		case errors.As(err, &missing) && missing.IsNotFound:
			errs = append(errs, fmt.Errorf("zone %s has no record of %s: kubectl logs -n "+externalDNSNamespace+" deploy/external-dns says why", e.Zones[i], host))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", host, err))
		case !slices.ContainsFunc(found, func(a netip.Addr) bool { return a.Unmap() == want }):
			errs = append(errs, fmt.Errorf("%s leads to %s, and the cluster has it at %s: external-dns changes no record of another owner, so remove that one from zone %s", host, found[0].Unmap(), want, e.Zones[i]))
		}
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	return printable.Count(count, "name"), nil
}
