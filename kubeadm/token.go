package kubeadm

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/kubeconfig"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// Where kubeadm puts what an administrator needs (constants/constants.go).
const (
	adminFile     = "/etc/kubernetes/admin.conf"
	authorityFile = "/etc/kubernetes/pki/ca.crt"
)

// ErrNoCluster says that a machine is not a server of a cluster.
var ErrNoCluster = errors.New("kubeadm has not created a cluster on this machine")

// Token lets machines join as agents until it ends. It is bound to one cluster.
type Token struct {
	ID        string // no secret; for [RevokeToken]
	secret    string
	authority string // the digest of the authority's key, which the machine compares with the cluster's
}

var tokenForm = regexp.MustCompile(`^([a-z0-9]{6})\.[a-z0-9]{16}$`)

// CreateToken creates a token on a running server. kubeadm makes it up, so that it is in no argument.
func CreateToken(ctx context.Context, r remote.Runner, valid time.Duration, description string) (Token, error) {
	if valid < time.Second {
		return Token{}, fmt.Errorf("create a join token: it is valid for %s: write at least 1s; one of 0 never ends", valid)
	}
	authority, err := remote.ReadFile(ctx, r, authorityFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Token{}, fmt.Errorf("create a join token: %w: %w", ErrNoCluster, err)
	}
	if err != nil {
		return Token{}, fmt.Errorf("create a join token: %w", err)
	}
	t := Token{}
	if t.authority, err = keyDigest(authority); err != nil {
		return Token{}, fmt.Errorf("create a join token: %w", err)
	}
	out, err := remote.Output(ctx, r, "kubeadm", "token", "create", "--kubeconfig", adminFile,
		"--ttl", valid.Truncate(time.Second).String(), "--description", description)
	if err != nil {
		return Token{}, fmt.Errorf("create a join token: %w", err)
	}
	t.secret = strings.TrimSpace(string(out))
	m := tokenForm.FindStringSubmatch(t.secret)
	if m == nil {
		return Token{}, errors.New("create a join token: kubeadm printed something else than a token")
	}
	t.ID = m[1]
	return t, nil
}

// keyDigest is how kubeadm names an authority: the SHA-256 of its public key (util/pubkeypin/pubkeypin.go).
func keyDigest(certificate []byte) (string, error) {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return "", fmt.Errorf("%s has no certificate", authorityFile)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", authorityFile, err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(c.RawSubjectPublicKeyInfo)), nil
}

// Seal returns the token as one value. OpenToken reads it.
func (t Token) Seal() secret.Value { return secret.New(t.secret + " " + t.authority) }

// OpenToken is the token of a value that Seal returned; of the zero value, the zero Token.
func OpenToken(v secret.Value) Token {
	var t Token
	if !v.IsZero() {
		t.secret, t.authority, _ = strings.Cut(v.Reveal(), " ")
		t.ID, _, _ = strings.Cut(t.secret, ".")
	}
	return t
}

// RevokeToken deletes a token. One that has ended or was deleted before is fine.
func RevokeToken(ctx context.Context, r remote.Runner, id string) error {
	err := remote.Run(ctx, r, "kubeadm", "token", "delete", "--kubeconfig", adminFile, id)
	var exit *remote.ExitError
	if errors.As(err, &exit) && strings.Contains(exit.Stderr, "not found") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("revoke the join token %s: %w", id, err)
	}
	return nil
}

// Kubeconfig is the administrator's, with another URL of the API.
func Kubeconfig(ctx context.Context, r remote.Runner, server, cluster string) (secret.Value, error) {
	return kubeconfig.Read(ctx, r, adminFile, kubeconfig.Access{Server: server, Cluster: cluster}, ErrNoCluster)
}

// Ready returns an error if the API server of this machine is not ready; the text is kubectl's.
func Ready(ctx context.Context, r remote.Runner) error {
	_, err := remote.Output(ctx, r, "kubectl", "--kubeconfig", adminFile, "get", "--raw", "/readyz?verbose")
	return err
}
