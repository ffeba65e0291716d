package secret

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/internal/printable"
)

// Mask is printed instead of a secret.
const Mask = "[secret]"

// Value is a string that does not print. The zero Value is an empty secret.
type Value struct {
	// A pointer, so that %v of a struct that holds a Value in an unexported
	// field (where fmt cannot call methods) prints an address and not the text.
	text *string
}

// New makes a Value of s.
func New(s string) Value { return Value{text: &s} }

// Reveal returns the text. There is no other way to read it.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// IsZero reports whether there is no secret, or an empty one.
func (v Value) IsZero() bool { return v.Reveal() == "" }

// Format implements fmt.Formatter: every verb prints [Mask].
func (v Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Mask)) }

// String returns [Mask].
func (v Value) String() string { return Mask }

// LogValue implements slog.LogValuer.
func (v Value) LogValue() slog.Value { return slog.StringValue(Mask) }

// MarshalText implements encoding.TextMarshaler, and with it JSON and YAML.
func (v Value) MarshalText() ([]byte, error) { return []byte(Mask), nil }

// FromEnv reads a secret from an environment variable. A variable that is unset
// or empty is an error: an empty secret is never what was meant.
func FromEnv(name string) (Value, error) {
	s := os.Getenv(name)
	if s == "" {
		return Value{}, fmt.Errorf("environment variable %s is not set: export it, or refer to a file with file:PATH", name)
	}
	return New(s), nil
}

// FromFile reads a secret from a file, without its trailing newline. A file that
// others may read is refused, with the command that fixes it.
func FromFile(path string) (Value, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Value{}, fmt.Errorf("secret file %s does not exist: %w", path, err)
	}
	if err != nil {
		return Value{}, fmt.Errorf("secret file: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return Value{}, fmt.Errorf("secret file %s may be read by others (mode %04o): run chmod 600 %s", path, perm, printable.Word(path))
	}
	b, err := limit.File(path, limit.Named)
	if err != nil {
		return Value{}, fmt.Errorf("secret file: %w", err)
	}
	s := strings.TrimRight(string(b), "\r\n")
	if s == "" {
		return Value{}, fmt.Errorf("secret file %s is empty: write the secret into it, or create a new one at its source", path)
	}
	return New(s), nil
}

// Random makes a secret of n random bytes, as URL-safe base64 without padding.
func Random(n int) Value {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, see crypto/rand
	return New(base64.RawURLEncoding.EncodeToString(b))
}
