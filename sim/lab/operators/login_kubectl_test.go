package operators_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
	"github.com/cps-gpu/homelab/sim/lab/internal/pki"
)

// authority writes an authority of the file's own.
func authority(t *testing.T, dir string) {
	t.Helper()
	cert, key, err := pki.NewCA("lab.example")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), cert, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.key"), key, 0o600))
}

// takesTokens gives the API server what a file's login says, as its servers' configuration does. A simulated one takes none.
func (s *site) takesTokens(t *testing.T, file *spec.Spec) {
	t.Helper()
	ca, err := addon.LoginAuthority(&file.Platform)
	require.NoError(t, err)
	args := []guest.PlaneArgument{{Name: "oidc-ca-file", Value: "/ca.pem", File: ca}}
	for _, a := range file.Platform.LoginArgs() {
		name, value, _ := strings.Cut(a.(string), "=")
		args = append(args, guest.PlaneArgument{Name: name, Value: value})
	}
	require.NoError(t, s.plane.(guest.PlaneIssuerSetter).SetIssuer(t.Context(), args))
}

// client is a program of a person's, which has signed in at an issuer as kubelogin does: by a browser, with PKCE.
type client struct {
	oauth2.TokenSource
	site  *site
	first string // ID token
}

func (b *browser) client(s *site, issuer, id, secret, redirect string, signIn func()) *client {
	b.t.Helper()
	ctx := oidc.ClientContext(b.t.Context(), b.http)
	provider, err := oidc.NewProvider(ctx, issuer)
	require.NoError(b.t, err)
	config := oauth2.Config{ClientID: id, ClientSecret: secret, RedirectURL: redirect, Endpoint: provider.Endpoint(),
		Scopes: []string{"openid", "profile", "groups", "offline_access"}}
	var back url.Values
	b.http.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), redirect) {
			return nil
		}
		back = r.URL.Query()
		return http.ErrUseLastResponse
	}
	verifier := oauth2.GenerateVerifier()
	require.NoError(b.t, b.load(b.http.Get(config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)))))
	signIn()
	require.Equal(b.t, "state", back.Get("state"), "%s: %s", b.at, b.text)
	tokens, err := config.Exchange(ctx, back.Get("code"), oauth2.VerifierOption(verifier))
	require.NoError(b.t, err)
	return &client{config.TokenSource(ctx, tokens), s, tokens.Extra("id_token").(string)}
}

// kubectl signs in.
func (b *browser) kubectl(s *site, issuer, id, source string, form url.Values) *client {
	b.t.Helper()
	return b.client(s, issuer, id, "", "http://localhost:8000", func() {
		b.t.Helper()
		b.pick(source)
		b.send(form)
	})
}

// idToken is a valid one; the issuer is asked again if that of before has expired.
func (c *client) idToken() (string, error) {
	token, err := c.Token()
	if err != nil {
		return "", err
	}
	return token.Extra("id_token").(string), nil
}

// may is who the API server says that somebody is, and their rights.
func (c *client) may(ctx context.Context) (string, error) {
	token, err := c.idToken()
	if err != nil {
		return "", err
	}
	return labtest.Rights(ctx, c.site.config, token)
}

// untilMay waits until somebody is who they are, with their rights.
func (c *client) untilMay(t *testing.T, want string) {
	t.Helper()
	eventually(t, 60*time.Second, "the API server takes a token of "+want, func(ctx context.Context) error {
		have, err := c.may(ctx)
		if err == nil && have != want {
			err = errors.New(have)
		}
		return err
	})
}

// refused checks that a token is nothing to the API server.
func (s *site) refused(ctx context.Context, token string) error {
	if _, err := labtest.Rights(ctx, s.config, token); !apierrors.IsUnauthorized(err) {
		return fmt.Errorf("it is not refused: %w", err)
	}
	return nil
}

// kubectlLogins: people's tokens have the rights of their groups at the API server, and no other tokens have any.
func (s *site) kubectlLogins(t *testing.T, ada, bob url.Values) (adas, bobs *client) {
	t.Helper()
	const issuer = "https://login.lab.example"
	adas, bobs = s.browser(t).kubectl(s, issuer, spec.LoginKubectl, "local", ada), s.browser(t).kubectl(s, issuer, spec.LoginKubectl, "local", bob)
	adas.untilMay(t, "login:ada [login:admins system:authenticated] pods=true secrets=true")
	bobs.untilMay(t, "login:bob [login:lab login:course system:authenticated] pods=true secrets=false")
	eves := s.browser(t).kubectl(s, issuer, spec.LoginKubectl, "oidc", url.Values{"login": {"eve"}, "groups": {"system:masters"}})
	eves.untilMay(t, "login:eve [login:system:masters system:authenticated] pods=false secrets=false")

	proof, err := s.core.CoreV1().Secrets("dex").Get(t.Context(), "dex-clients", metav1.GetOptions{})
	require.NoError(t, err)
	b := s.browser(t)
	ofHub := b.client(s, issuer, "hub", string(proof.Data["hub"]), "https://hub.lab.example/hub/oauth_callback", func() {
		b.pick("local")
		b.send(ada)
	})
	require.NoError(t, s.refused(t.Context(), ofHub.first), "for the hub")
	valid, err := ofHub.idToken()
	require.NoError(t, err)
	require.Equal(t, ofHub.first, valid, "it is valid still")
	mine, theirs := strings.Split(adas.first, "."), strings.Split(ofHub.first, ".")
	require.NoError(t, s.refused(t.Context(), mine[0]+"."+mine[1]+"."+theirs[2]), "with the signature of another")
	return adas, bobs
}

// isOut waits until the first token of who has left is refused, for a minute after that, and checks that there is no other.
func (c *client) isOut(t *testing.T, removed time.Time) {
	t.Helper()
	eventually(t, time.Until(removed.Add(time.Minute)), "a token of who has left is refused", func(ctx context.Context) error { return c.site.refused(ctx, c.first) })
	_, err := c.idToken()
	assert.Error(t, err, "the issuer gives no other")
}
