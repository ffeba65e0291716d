package cluster

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/internal/artifacts"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// LoginKey is the key to log in to the machines of a cluster, derived from the secret of its API
// token. It is the same on every machine that has the token, and need not be stored. The owner
// of a token is root in the guests anyway, through their agents. The key is HKDF-SHA256 of the
// secret (RFC 5869), for this purpose and this cluster alone, so it reveals nothing about the
// secret.
func LoginKey(token secret.Value, cluster string) (ssh.Signer, error) {
	if token.IsZero() {
		return nil, errors.New("login key: the API token has no secret")
	}
	seed, err := hkdf.Key(sha256.New, []byte(token.Reveal()), nil, "homelab login key, version 1, cluster "+cluster, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("login key: %w", err)
	}
	return ssh.SeedSigner(seed)
}

// K3sURL is the URL of the checksums of the file's release of K3s, "" if its files come from a
// folder.
func K3sURL(s *spec.Spec) string { return artifacts.SumsURL(s) }
