// Package oidc reads what an OpenID Connect provider publishes of itself.
package oidc

import (
	"fmt"
	"net/url"
	"strings"
)

// Document is what a provider says of itself (OpenID Connect Discovery 1.0, section 3, and RFC 8414).
type Document struct {
	Issuer     string   `json:"issuer"`
	Authorize  string   `json:"authorization_endpoint"`
	Token      string   `json:"token_endpoint"`
	Userinfo   string   `json:"userinfo_endpoint"`
	Keys       string   `json:"jwks_uri"`
	Scopes     []string `json:"scopes_supported"`
	Grants     []string `json:"grant_types_supported"`
	Responses  []string `json:"response_types_supported"`
	Challenges []string `json:"code_challenge_methods_supported"`
	Proofs     []string `json:"token_endpoint_auth_methods_supported"`
	Signatures []string `json:"id_token_signing_alg_values_supported"`
}

// Read has get decode the document of an issuer. Secrets are sent to what it names, so an issuer with TLS cannot lead to
// an address without.
func Read(issuer string, get func(address string, out any) error) (d Document, err error) {
	if err := get(strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", &d); err != nil {
		return d, err
	}
	if d.Issuer != issuer { // Go's programs compare them letter by letter (coreos/go-oidc, NewProvider)
		return d, fmt.Errorf("it calls itself %q, and programs take no tokens but those of %q: write exactly its own name as issuer", d.Issuer, issuer)
	}
	for _, e := range [][2]string{{"authorization_endpoint", d.Authorize}, {"token_endpoint", d.Token}, {"userinfo_endpoint", d.Userinfo}, {"jwks_uri", d.Keys}} {
		if u, err := url.Parse(e[1]); err != nil || u.Host == "" || strings.HasPrefix(issuer, "https://") && u.Scheme != "https" {
			return d, fmt.Errorf("its %s is %q, which programs cannot use: behind a proxy a provider must know its own address", e[0], e[1])
		}
	}
	return d, nil
}
