package certs

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

func (r section) dns(d *spec.DNS, t *spec.TLS) {
	for i, zone := range d.Zones {
		if !decode.IsGoodHostname(zone) {
			r.Wrong(&d.Zones[i], fmt.Sprintf("%q cannot be a zone", zone), "write its name in lower-case letters, without a dot at its end, e.g. home.example")
		}
		if slices.Index(d.Zones, zone) < i {
			r.Wrong(&d.Zones[i], fmt.Sprintf("zone %s is here twice", zone), "keep one of them")
		}
	}
	for i, server := range d.Resolvers {
		if _, err := netip.ParseAddrPort(server); err != nil {
			r.Wrong(&d.Resolvers[i], fmt.Sprintf("%q lacks an address or its port", server), "write e.g. 1.1.1.1:53")
		}
	}
	r.provider(d)
	r.keys(d)
	proves := t != nil && t.Source == spec.TLSACME && t.Challenge == spec.ChallengeDNS
	if !proves && len(d.Resolvers) > 0 {
		r.Warn(&d.Resolvers, "no certificate is proven by DNS, so resolvers has no effect", "write tls: {source: acme, email: …}, or remove resolvers")
	}
	if !proves && !d.Records.IsOn() {
		r.Warn(d, "nothing uses these zones", "write records: true, or tls: {source: acme, email: …}")
	}
}

// provider checks that one service serves the zones.
func (r section) provider(d *spec.DNS) {
	var all []any
	for _, p := range []struct {
		said bool
		at   any
	}{
		{d.Cloudflare != nil, &d.Cloudflare}, {d.Route53 != nil, &d.Route53}, {d.RFC2136 != nil, &d.RFC2136}, {d.Webhook != nil, &d.Webhook},
	} {
		if p.said {
			all = append(all, p.at)
		}
	}
	switch {
	case len(all) == 0:
		r.Wrong(d, "dns does not say who serves the zones", "write cloudflare: env:NAME with a reference to its token, or route53, rfc2136 or webhook with their keys")
	case len(all) > 1:
		r.Wrong(all[1], "two services cannot serve the same zones", "keep one of cloudflare, route53, rfc2136 and webhook")
	case d.Webhook != nil && d.Records.IsOn():
		r.Wrong(&d.Records, "external-dns cannot use a webhook of cert-manager's", "remove records, and keep the names yourself")
	}
}

// keys checks that what serves the zones has the keys that it needs.
func (r section) keys(d *spec.DNS) {
	need := func(at any, name, what string) {
		if !r.IsSet(at) {
			r.Wrong(at, "dns has no "+name, "write "+what)
		}
	}
	need(&d.Zones, "zones", "zones: and the names of those that the credentials may change")
	if p := d.Cloudflare; p != nil {
		need(&p.Token, "token for Cloudflare", "token: env:NAME or file:PATH")
	}
	if p := d.Route53; p != nil {
		need(&p.AccessKey, "accessKey for Route 53", "accessKey: and its ID")
		need(&p.SecretKey, "secretKey for Route 53", "secretKey: env:NAME or file:PATH")
	}
	if p := d.RFC2136; p != nil {
		need(&p.Server, "server for updates", "server: and the address of the zones' primary server")
		need(&p.Key, "key for updates", "key: and the name of a TSIG key of the server")
		need(&p.Secret, "secret for updates", "secret: env:NAME or file:PATH with the key in base64")
		r.nameServer(p)
	}
	if p := d.Webhook; p != nil {
		need(&p.Group, "group of the webhook", "group: and the webhook's API group")
		need(&p.Solver, "solver of the webhook", "solver: and the webhook's name of its solver")
	}
}

// nameServer completes the port of a server that takes updates.
func (r section) nameServer(s *spec.RFC2136) {
	host, port, err := net.SplitHostPort(s.Server)
	if err != nil {
		host, port = strings.Trim(s.Server, "[]"), "53"
	}
	_, bad := netip.ParseAddr(host)
	if s.Server != "" && (!decode.IsPort(port) || bad != nil && !decode.IsDNSName(host)) {
		r.Wrong(&s.Server, fmt.Sprintf("%q cannot be a name server", s.Server), "write its address, e.g. 192.168.1.2 or 192.168.1.2:53")
	} else if s.Server != "" {
		s.Server = net.JoinHostPort(host, port)
	}
	if s.Key != "" && !decode.IsDNSName(s.Key) {
		r.Wrong(&s.Key, fmt.Sprintf("%q cannot be a key's name", s.Key), "write it as in the server's configuration, without a dot at its end")
	}
}

// CheckNames checks that an ACME authority can sign certificates for names, which are hostnames of
// parts.
func CheckNames(c *decode.Checker, p *spec.Platform, names []*string) {
	if p.TLS == nil || p.TLS.Source != spec.TLSACME {
		return
	}
	for _, name := range names {
		// An authority of one's own signs names of one's own network.
		if private := []string{".local", ".lan", ".internal", ".home.arpa", ".test", ".example", ".invalid", ".localhost"}; strings.Contains(p.TLS.Server, "letsencrypt.org") &&
			slices.ContainsFunc(private, func(s string) bool { return strings.HasSuffix(*name, s) }) {
			c.Wrong(name, fmt.Sprintf("no public authority signs certificates for %s, which is not in a public domain", *name), "write a name of a domain of yours, or tls: self-signed")
		} else if p.TLS.Challenge == spec.ChallengeDNS && p.DNS != nil && !p.DNS.Has(*name) {
			c.Wrong(name, fmt.Sprintf("%s is in none of the zones of dns, so nothing can prove that it is yours", *name), "write a name in "+strings.Join(p.DNS.Zones, " or ")+", or add its zone")
		}
	}
}
