package ssh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/internal/printable"
)

// GenerateKey generates an ed25519 key pair: the private half as OpenSSH's PEM, for a file of
// mode 0600, and the public half as a line for authorized_keys.
func GenerateKey() (privatePEM []byte, authorizedKey string, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("ssh: generate a key: %w", err)
	}
	block, err := xssh.MarshalPrivateKey(private, "homelab")
	if err != nil {
		return nil, "", fmt.Errorf("ssh: generate a key: %w", err)
	}
	key, err := xssh.NewPublicKey(public)
	if err != nil {
		return nil, "", fmt.Errorf("ssh: generate a key: %w", err)
	}
	line := strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key))) + " homelab"
	return pem.EncodeToMemory(block), line, nil
}

// SeedSigner is the ed25519 key of a seed of 32 bytes (RFC 8032): equal seeds give equal
// keys, so the seed is as secret as the key.
func SeedSigner(seed []byte) (xssh.Signer, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("ssh: a seed of %d bytes, want %d", len(seed), ed25519.SeedSize)
	}
	return xssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
}

// LoadSigner reads a private key from a file, in OpenSSH's or another usual PEM
// format. A key that others may read is refused, as ssh(1) does.
func LoadSigner(path string) (xssh.Signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fmt.Errorf("private key %s may be read by others (mode %04o): run chmod 600 %s", path, perm, printable.Word(path))
	}
	b, err := limit.File(path, limit.Named)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, fmt.Errorf("private key %s is empty, perhaps because a disk was full: restore the key from a copy, or remove the file and name another key", path)
	}
	return parseSigner(path, b)
}

// ParseSigner is LoadSigner for a key that is not in a file, e.g. from the environment.
func ParseSigner(key []byte) (xssh.Signer, error) { return parseSigner("(given)", key) }

func parseSigner(path string, b []byte) (xssh.Signer, error) {
	signer, err := xssh.ParsePrivateKey(b)
	if err == nil {
		return signer, nil
	}
	if _, ok := errors.AsType[*xssh.PassphraseMissingError](err); ok {
		return nil, fmt.Errorf("private key %s is protected by a passphrase: load it into an SSH agent with ssh-add %s "+
			"and use the agent, or use a key without one: %w", path, printable.Word(path), err)
	}
	if _, _, _, _, public := xssh.ParseAuthorizedKey(b); public == nil {
		return nil, fmt.Errorf("private key %s is a public key: give the file without .pub", path)
	}
	return nil, fmt.Errorf("private key %s: %w", path, err)
}
