// Package certs completes and checks tls and dns: who signs certificates, and who serves the zones
// with their names.
package certs

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

type section struct{ *decode.Checker }

const (
	defaultIssuer = "homelab"
	letsEncrypt   = "https://acme-v02.api.letsencrypt.org/directory"
)

// Complete completes and checks a platform's tls and dns.
func Complete(c *decode.Checker, p *spec.Platform) {
	r := section{c}
	if p.TLS == nil && p.Rancher != nil { // Rancher's agents connect only over TLS
		p.TLS = &spec.TLS{Source: spec.TLSSelfSigned, Issuer: defaultIssuer}
	} else if p.TLS != nil {
		r.tls(p.TLS, p.DNS)
	}
	if p.DNS != nil {
		r.dns(p.DNS, p.TLS)
	}
}

func (r section) tls(t *spec.TLS, dns *spec.DNS) {
	t.Source = cmp.Or(t.Source, tlsSource(t))
	t.CACert = r.Existing(&t.CACert, t.CACert, false)
	r.IsURL(&t.Server, "https")
	if t.Issuer != "" && !decode.IsDNSName(t.Issuer) {
		r.Wrong(&t.Issuer, fmt.Sprintf("%q cannot be an issuer's name", t.Issuer), "write lower-case letters, digits and hyphens")
	}
	r.tlsKeys(t)
	switch t.Source {
	case spec.TLSSecret:
		t.Issuer = ""
	case spec.TLSACME:
		r.challenge(t, dns)
		t.Server = cmp.Or(t.Server, letsEncrypt)
		fallthrough
	default:
		t.Issuer = cmp.Or(t.Issuer, defaultIssuer)
	}
}

func (r section) challenge(t *spec.TLS, dns *spec.DNS) {
	if t.Challenge == spec.ChallengeDNS && dns == nil {
		r.Wrong(&t.Challenge, "nothing says who serves the zones of the names", "write dns: {zones: […]} with cloudflare, route53, rfc2136 or webhook")
	}
	if t.Challenge == "" {
		t.Challenge = spec.ChallengeHTTP
		if dns != nil {
			t.Challenge = spec.ChallengeDNS
		}
	}
}

// tlsSource is the source of a section that names none.
func tlsSource(t *spec.TLS) string {
	switch {
	case t.Secret != "":
		return spec.TLSSecret
	case t.Email+t.Server+t.Challenge != "":
		return spec.TLSACME
	case t.CACert != "" || !t.CAKey.IsZero():
		return spec.TLSCA
	default:
		return spec.TLSSelfSigned
	}
}

// tlsKeys checks that a source has the keys that it needs, and no others.
func (r section) tlsKeys(raw *spec.TLS) {
	switch raw.Source {
	case spec.TLSACME:
		if raw.Email == "" {
			r.Wrong(&raw.Email, "acme has no email", "write email: and an address that you read: it gets warnings about expiring certificates")
		} else if !decode.Matches(`^[^@\s]+@[^@\s]+\.[^@\s]+$`, raw.Email) {
			r.Wrong(&raw.Email, fmt.Sprintf("%q is not an address", raw.Email), "write name@domain")
		}
		r.holdsCertificate(&raw.CACert)
	case spec.TLSCA:
		if raw.CACert == "" {
			r.Wrong(&raw.CACert, "tls has no certificate of the authority", "write ca: and the PEM file of its certificate")
		}
		if !r.IsSet(&raw.CAKey) {
			r.Wrong(&raw.CAKey, "tls has no key of the authority", "write key: file:PATH with its private key, or key: env:NAME")
		}
		r.holdsCertificate(&raw.CACert)
	case spec.TLSSecret:
		if namespace, name, ok := strings.Cut(raw.Secret, "/"); !ok || !decode.DNSLabel.MatchString(namespace) || !decode.IsDNSName(name) {
			r.Wrong(&raw.Secret, "tls names no Secret", "write secret: namespace/name of a Secret of type kubernetes.io/tls")
		}
		r.holdsCertificate(&raw.CACert)
	}
	for _, k := range []struct {
		at    any
		name  string
		means []string
	}{
		{&raw.Email, "email", []string{spec.TLSACME}}, {&raw.Server, "server", []string{spec.TLSACME}}, {&raw.Challenge, "challenge", []string{spec.TLSACME}}, {&raw.CACert, "ca", []string{spec.TLSCA, spec.TLSSecret, spec.TLSACME}},
		{&raw.CAKey, "key", []string{spec.TLSCA}}, {&raw.Secret, "secret", []string{spec.TLSSecret}}, {&raw.Issuer, "issuer", []string{spec.TLSSelfSigned, spec.TLSACME, spec.TLSCA}},
	} {
		if r.IsSet(k.at) && !slices.Contains(k.means, raw.Source) {
			r.Wrong(k.at, fmt.Sprintf("%s has no effect with source %s", k.name, raw.Source), "remove it, or write source: "+suggest.JoinOr(k.means))
		}
	}
}

// holdsCertificate checks that an existing file contains a certificate, and no key.
func (r section) holdsCertificate(at *string) {
	if _, err := os.Stat(r.Path(*at)); *at == "" || err != nil {
		return // said elsewhere
	}
	text, ok := r.Source(at, *at)
	switch {
	case !ok:
	case strings.Contains(text, "PRIVATE KEY"):
		r.Wrong(at, "this file contains a private key, and its content is public", "keep only certificates in it; the key belongs in a file of its own")
	case !strings.Contains(text, "BEGIN CERTIFICATE"):
		r.Wrong(at, "this file contains no certificate in PEM", "name a file that begins with -----BEGIN CERTIFICATE-----")
	}
}
