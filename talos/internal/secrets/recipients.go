package secrets

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/secret"
)

// recipient is one who can decrypt, and its public key as text.
type recipient struct {
	name string
	age.Recipient
}

func names(to []recipient) []string {
	out := make([]string, len(to))
	for i, r := range to {
		out[i] = r.name
	}
	return out
}

func keys(to []recipient) []age.Recipient {
	out := make([]age.Recipient, len(to))
	for i, r := range to {
		out[i] = r.Recipient
	}
	return out
}

// derived is the identity of the owner of the API token, and its recipient: HKDF-SHA256 of the token's secret (RFC
// 5869) for this purpose and cluster alone, as cluster.LoginKey makes it for logins. It is a key of SSH because
// age takes those from bytes.
func derived(token secret.Value, cluster string) (age.Identity, recipient, error) {
	if token.IsZero() {
		return nil, recipient{}, errors.New("secrets: the API token has no secret")
	}
	fail := func(err error) (age.Identity, recipient, error) {
		return nil, recipient{}, fmt.Errorf("secrets: the key of the API token: %w", err)
	}
	seed, err := hkdf.Key(sha256.New, []byte(token.Reveal()), nil, "homelab talos secrets, version 1, cluster "+cluster, ed25519.SeedSize)
	if err != nil {
		return fail(err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	id, err := agessh.NewEd25519Identity(key)
	if err != nil {
		return fail(err)
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return fail(err)
	}
	r, err := agessh.NewEd25519Recipient(public)
	if err != nil {
		return fail(err)
	}
	return id, recipient{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))), r}, nil
}
