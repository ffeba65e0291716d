package kubeadm

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	_ "embed" // the script below
	"encoding/hex"
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

// Token lets machines join until it ends. It is bound to one cluster.
type Token struct {
	ID        string // no secret; for [RevokeToken]
	secret    string
	authority string // the digest of the authority's key, which the machine compares with the cluster's
	key       string // decrypts the certificates that a server needs, for two hours; "": it is for agents
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

// CreateServerToken is CreateToken for a machine that becomes a server: this one encrypts the authorities' keys for it,
// with a key that is made up for this join, and keeps them in the cluster for two hours (phases/copycerts). n is the
// server that does this.
func CreateServerToken(ctx context.Context, r remote.Runner, c Cluster, n Node, valid time.Duration, description string) (Token, error) {
	t, err := CreateToken(ctx, r, valid, description)
	if err != nil {
		return Token{}, err
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails, see crypto/rand
	t.key = hex.EncodeToString(key[:])
	config, err := c.uploading(n, t.key)
	if err == nil {
		err = r.Run(ctx, remote.Cmd{Args: []string{"sh", "-c", uploadScript, "upload.sh"}, Stdin: bytes.NewReader(config)})
	}
	if err != nil {
		return t, fmt.Errorf("keep the certificates for a server that joins: %w", err)
	}
	return t, nil
}

//go:embed upload.sh
var uploadScript string

// Seal returns the token as one value. OpenToken reads it.
func (t Token) Seal() secret.Value {
	return secret.New(strings.TrimSpace(t.secret + " " + t.authority + " " + t.key))
}

// OpenToken is the token of a value that Seal returned; of the zero value, the zero Token.
func OpenToken(v secret.Value) Token {
	var t Token
	if !v.IsZero() {
		var rest string
		t.secret, rest, _ = strings.Cut(v.Reveal(), " ")
		t.authority, t.key, _ = strings.Cut(rest, " ")
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

// Ready returns an error if the API server of this machine is not ready; the text is kubectl's. The endpoint in the
// login may be another server's just now. The certificate of each has the name kubernetes (util/pkiutil).
func Ready(ctx context.Context, r remote.Runner) error {
	_, err := remote.Output(ctx, r, "kubectl", "--kubeconfig", adminFile, "--server", "https://127.0.0.1:6443", "--tls-server-name", "kubernetes", "get", "--raw", "/readyz?verbose")
	return err
}
