package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/oidc"
	"github.com/cps-gpu/homelab/kube/addon"
)

// CheckProvider says, before anything changes, why the programs could not ask the provider of the login. What a provider
// does not list it may do all the same, except where a document has to list it, and except for offline_access: Google
// refuses that instead of ignoring it (int128/kubelogin issue 405), and Dex decides by the list too (dexidp/dex pull 595).
func CheckProvider(ctx context.Context, p *spec.Platform) error {
	fail := func(err error) error { return fmt.Errorf("login.provider %s: %w", p.Issuer().URL, err) }
	d, err := provider{p.Issuer()}.document(ctx)
	if err != nil {
		return fail(err)
	}
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fail(fmt.Errorf(format, args...)))
		}
	}
	lacks := func(list []string, value string) bool { return len(list) > 0 && !slices.Contains(list, value) }
	scopes := p.Login.Provider.Scopes
	wrong(lacks(d.Grants, "authorization_code") || lacks(d.Responses, "code"), "it has no sign-in by a code (authorization_code): turn that on at the provider")
	wrong(lacks(d.Challenges, "S256"), "it takes PKCE without S256, which the programs use: turn that on at the provider")
	wrong(slices.Contains(scopes, "offline_access") && lacks(d.Scopes, "offline_access"), "it does not know the scope offline_access, and may refuse it: remove it from login.provider.scopes")
	wrong(p.HubSignsIn() && lacks(d.Proofs, "client_secret_post"), "it takes no client secret in the body of a request (client_secret_post), which is how the hub sends it: turn that on at the provider")
	wrong(!slices.Contains(d.Signatures, "RS256"), "it does not sign with RS256, the one signature that all programs check: choose an RSA key at the provider (Authentik: Signing Key)")
	return errors.Join(errs...)
}

// provider is one of a file.
type provider struct{ spec.Issuer }

// document asks the provider.
func (p provider) document(ctx context.Context) (d oidc.Document, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	ca, err := addon.File("ca", p.CA)
	if err != nil {
		return d, err
	}
	client, done, err := clientWith(ca)
	if err != nil {
		return d, err
	}
	defer done()
	client.CheckRedirect = func(to *http.Request, via []*http.Request) error {
		if via[0].URL.Scheme == "https" && to.URL.Scheme != "https" || len(via) > 5 {
			return fmt.Errorf("it redirects to %s: correct issuer", to.URL.Redacted())
		}
		return nil
	}
	return oidc.Read(p.URL, func(address string, out any) error { return getJSON(ctx, client, address, out) })
}

func getJSON(ctx context.Context, client *http.Client, address string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: start it, or correct issuer or ca", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: write the issuer below which that document is", address, res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(out); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return nil
}

// discover fills in the addresses that the provider publishes.
func (p provider) discover(ctx context.Context) (spec.Issuer, error) {
	out := p.Issuer
	d, err := p.document(ctx)
	if err != nil {
		return out, fmt.Errorf("login.provider %s: %w", p.URL, err)
	}
	out.Authorize, out.Token, out.Userinfo, out.Keys = d.Authorize, d.Token, d.Userinfo, d.Keys
	return out, nil
}
