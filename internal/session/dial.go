package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
)

// token is the secret of the API token of the file.
func (s *Session) token() (secret.Value, error) {
	token, err := s.Spec.Proxmox.TokenSecret.Resolve()
	if err != nil {
		return token, exitError(invalid, s.errorAt("proxmox.secret", fmt.Errorf("proxmox.secret: %w", err)))
	}
	s.Redact.Add(token)
	return token, nil
}

// dial connects to the Proxmox VE of the file with its token.
func (s *Session) dial(ctx context.Context) (*proxmox.Client, error) {
	p := s.Spec.Proxmox
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	if p.Insecure {
		s.Printf("warning: the certificate of %s is not checked (proxmox.insecure)", p.Endpoint)
	}
	c, err := proxmox.Dial(ctx, s.withClient(proxmox.Config{
		Endpoint: p.Endpoint, TokenID: p.TokenID, TokenSecret: token,
		CAFile: p.CAFile, Fingerprint: p.Fingerprint, Insecure: p.Insecure, RootUser: p.User, RootPassword: s.rootPassword(), Wrap: s.wrap,
	}))
	key := keyOfError(err)
	if token.IsZero() || strings.ContainsAny(token.Reveal(), " \t\r\n") { // it was not sent
		key = "proxmox.secret"
	}
	return c, s.errorAt(key, err)
}

// errorAt says where in the file the value is that led to an error.
func (s *Session) errorAt(key string, err error) error {
	if place := s.Spec.Places[key]; err != nil && place != "" {
		return fmt.Errorf("%s: %w", place, err)
	}
	return err
}

// keyOfError returns the key of the value that a first request to Proxmox VE failed on.
func keyOfError(err error) string {
	var certificate proxmox.CertificateError
	want := ""
	if errors.As(err, &certificate) {
		_, want = certificate.Fingerprints()
	}
	switch {
	case want != "":
		return "proxmox.fingerprint"
	case errors.Is(err, proxmox.ErrUnauthorized):
		return "proxmox.token"
	}
	return "proxmox.endpoint"
}

// withClient has Proxmox reached by the session's own client, if it has one, which then checks certificates.
func (s *Session) withClient(cfg proxmox.Config) proxmox.Config {
	if s.web != nil {
		cfg.HTTPClient, cfg.CAFile, cfg.Fingerprint, cfg.Insecure = s.web, "", "", false
	}
	return cfg
}
