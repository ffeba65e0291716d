package api

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/limit"
)

// TLSError says why the host's certificate is not trusted. It has the fingerprint, so that the user
// can compare it and then store it.
type TLSError struct {
	Endpoint    string
	Fingerprint string // SHA-256 of the host's certificate
	Want        string // the expected fingerprint, "" if none
	Cause       error
}

// Error returns the fingerprint and what to do with it.
func (e *TLSError) Error() string {
	if e.Want != "" {
		return fmt.Sprintf("proxmox: the certificate of %s is not the expected one: its SHA-256 fingerprint is\n  %s\n"+
			"not\n  %s\nif it was renewed, compare with pvenode cert info on the host, then change the fingerprint",
			e.Endpoint, e.Fingerprint, e.Want)
	}
	return fmt.Sprintf("proxmox: the certificate of %s is not signed by a known authority; its SHA-256 fingerprint is\n  %s\n"+
		"compare it with pvenode cert info on the host, then set it as the fingerprint; or name the CA file (/etc/pve/pve-root-ca.pem)",
		e.Endpoint, e.Fingerprint)
}

// Fingerprints returns the certificate's fingerprint and the expected one.
func (e *TLSError) Fingerprints() (shown, want string) { return e.Fingerprint, e.Want }

// Unwrap returns the TLS library's error.
func (e *TLSError) Unwrap() error { return e.Cause }

// Fingerprint returns the SHA-256 of a certificate in Proxmox's format: AB:CD:….
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return colons(hex.EncodeToString(sum[:]))
}

func colons(digits string) string {
	var b strings.Builder
	for i := 0; i < len(digits); i += 2 {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(strings.ToUpper(digits[i : i+2]))
	}
	return b.String()
}

// parseFingerprint accepts a SHA-256 fingerprint with or without colons, in any case.
func parseFingerprint(s string) (string, error) {
	digits := strings.NewReplacer(":", "", " ", "").Replace(strings.ToLower(s))
	if b, err := hex.DecodeString(digits); err != nil || len(b) != sha256.Size {
		return "", fmt.Errorf("fingerprint %q is not a SHA-256 fingerprint (32 bytes in hexadecimal, AB:CD:…): see pvenode cert info on the host", s)
	}
	return colons(digits), nil
}

// checkTLS finds fields that exclude each other. Were one of them dropped, a check that the caller
// relies on would not be made.
func checkTLS(cfg Config) error {
	var set []string
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"CAFile", cfg.CAFile != ""}, {"Fingerprint", cfg.Fingerprint != ""}, {"Insecure", cfg.Insecure}, {"HTTPClient", cfg.HTTPClient != nil},
	} {
		if field.set {
			set = append(set, field.name)
		}
	}
	if len(set) > 1 {
		return fmt.Errorf("proxmox: %s exclude each other, since each says how the certificate is checked: set one", strings.Join(set, " and "))
	}
	return nil
}

// tlsConfig builds the TLS configuration for a Config. A fingerprint replaces the checks of the
// chain and of the name, because it identifies this one certificate.
func tlsConfig(cfg Config, endpoint string) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case cfg.Fingerprint != "":
		want, err := parseFingerprint(cfg.Fingerprint)
		if err != nil {
			return nil, err
		}
		out.InsecureSkipVerify = true // VerifyConnection below does the check
		out.VerifyConnection = func(state tls.ConnectionState) error {
			if got := Fingerprint(state.PeerCertificates[0]); got != want {
				return &TLSError{Endpoint: endpoint, Fingerprint: got, Want: want}
			}
			return nil
		}
	case cfg.CAFile != "":
		pem, err := limit.File(cfg.CAFile, limit.Named)
		if err != nil {
			return nil, fmt.Errorf("CA file: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA file %s holds no PEM certificate", cfg.CAFile)
		}
	case cfg.Insecure:
		out.InsecureSkipVerify = true // the user asked for it
	}
	return out, nil
}

// defaultTransport is the transport to use if the caller supplies none. Its timeouts follow Proxmox's:
// its proxy gives a daemon 30 s to answer.
func defaultTransport(cfg Config, endpoint string) (*http.Transport, error) {
	config, err := tlsConfig(cfg, endpoint)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 60 * time.Second,
		IdleConnTimeout:       30 * time.Second,
		MaxIdleConnsPerHost:   16,
		MaxConnsPerHost:       32,
		DialContext:           dialer().DialContext,
	}, nil
}

// explainTLS turns a failed check of the certificate into a TLSError.
func explainTLS(err error, endpoint string) error {
	var own *TLSError
	if errors.As(err, &own) {
		return own
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) && len(cert.UnverifiedCertificates) > 0 {
		return &TLSError{Endpoint: endpoint, Fingerprint: Fingerprint(cert.UnverifiedCertificates[0]), Cause: err}
	}
	return nil
}

func isFingerprint(err error) bool {
	var e *TLSError
	return errors.As(err, &e)
}
