package spec

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/cps-gpu/homelab/internal/sops"
	"github.com/cps-gpu/homelab/secret"
)

// SecretRef is a reference to a secret. [SecretRef.Resolve] reads the secret when it is
// needed; it is never part of a Spec.
type SecretRef struct {
	scheme, ref string
}

// ErrInlineSecret says that a secret was written instead of a reference. It does not contain
// the text.
var ErrInlineSecret = errors.New("this is not a reference to a secret, so it may be the secret itself")

// ErrSOPS is the error for sops: references that name no file or no value in it.
var ErrSOPS = errors.New("a sops: reference names a file and a value in it")

// ParseSecretRef reads env:NAME, file:PATH or sops:FILE#path, where path is as
// [sops.Read] takes it. Its errors never repeat s.
func ParseSecretRef(s string) (SecretRef, error) {
	scheme, ref, ok := strings.Cut(s, ":")
	switch {
	case ok && scheme == "env" && IsVariable(ref), ok && scheme == "file" && ref != "":
		return SecretRef{scheme, ref}, nil
	case ok && scheme == "sops":
		if file, path, _ := strings.Cut(ref, "#"); file == "" || path == "" {
			return SecretRef{}, ErrSOPS
		}
		return SecretRef{scheme, ref}, nil
	default:
		return SecretRef{}, ErrInlineSecret
	}
}

// Resolve reads the secret.
func (r SecretRef) Resolve() (secret.Value, error) {
	switch r.scheme {
	case "env":
		return secret.FromEnv(r.ref)
	case "file":
		return secret.FromFile(r.ref)
	case "sops":
		file, path, _ := strings.Cut(r.ref, "#")
		return sops.Read(file, path)
	default:
		return secret.Value{}, errors.New("no secret is referred to here")
	}
}

// IsZero reports whether there is no reference.
func (r SecretRef) IsZero() bool { return r == SecretRef{} }

// String returns the reference, e.g. env:PROXMOX_TOKEN.
func (r SecretRef) String() string {
	if r.IsZero() {
		return ""
	}
	return r.scheme + ":" + r.ref
}

// MarshalText implements encoding.TextMarshaler.
func (r SecretRef) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *SecretRef) UnmarshalText(b []byte) error {
	var err error
	*r, err = ParseSecretRef(string(b))
	return err
}

// RelativeTo joins a relative path of a file to dir.
func (r SecretRef) RelativeTo(dir string) SecretRef {
	if r.scheme != "env" && !r.IsZero() && !filepath.IsAbs(r.ref) {
		r.ref = filepath.Join(dir, r.ref)
	}
	return r
}
