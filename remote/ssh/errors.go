package ssh

import (
	"context"
	"errors"
	"fmt"
	"strings"

	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote"
)

// HostKeyError says that a server's host key is unknown or not the pinned one.
type HostKeyError struct {
	Addr string
	Want []string // fingerprints of the pinned keys, each with its type; empty: none is known
	Got  string   // fingerprint of the key that the server showed; empty: it has none of the pinned types
	Has  []string // the server's key types, if it has none of the pinned types
}

func (e *HostKeyError) Error() string {
	switch {
	case len(e.Want) == 0:
		return fmt.Sprintf("no host key of %s is known, and an unknown key is not trusted: "+
			"read the key over a trusted channel, or add it to known_hosts", e.Addr)
	case e.Got == "":
		return fmt.Sprintf("%s has no host key of the pinned types: pinned is %s, it has %s: "+
			"pin one of those, read over a trusted channel", e.Addr, strings.Join(e.Want, ", "), strings.Join(e.Has, ", "))
	default:
		return fmt.Sprintf("the host key of %s is %s, but pinned is %s: the machine was recreated, another one "+
			"has its address, or somebody intercepts the connection; remove the pinned key only if you know that it is the first",
			e.Addr, e.Got, strings.Join(e.Want, ", "))
	}
}

// AuthError says that a server refused the login.
type AuthError struct {
	Addr    string
	User    string
	Offered []string // fingerprints of the offered keys, each with its type
	Banner  string   // the server's banner, if any
	Err     error    // the protocol's own message; nil if there was no key to offer
}

func (e *AuthError) Error() string {
	if len(e.Offered) == 0 {
		return fmt.Sprintf("no key to log in to %s as %s with: give a private key or an SSH agent", e.Addr, e.User)
	}
	text := fmt.Sprintf("%s does not let %s in with %s", e.Addr, e.User, strings.Join(e.Offered, ", "))
	if said := strings.Join(strings.Fields(e.Banner), " "); said != "" {
		text += fmt.Sprintf(" and says %.200q", said)
	}
	return text + fmt.Sprintf(": is the user right, and is the public key in its authorized_keys? (%v)", e.Err)
}

func (e *AuthError) Unwrap() error { return e.Err }

// UnreachableError says that a server could not be reached. It usually passes: a machine that
// boots gives this error until its SSH server is up.
type UnreachableError struct {
	Addr string
	Via  string // the route; empty for a direct one
	Err  error
}

func (e *UnreachableError) Error() string {
	if e.Via != "" {
		return fmt.Sprintf("cannot reach %s through %s: %v", e.Addr, e.Via, e.Err)
	}
	return fmt.Sprintf("cannot reach %s: %v", e.Addr, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// Transient is the opposite of Permanent: see the type.
func (e *UnreachableError) Transient() bool { return !e.Permanent() }

// Permanent reports whether waiting does not help, because the jump host does not forward
// connections. An unknown name is not permanent: a laptop that wakes up has no resolver at
// first.
func (e *UnreachableError) Permanent() bool {
	var refused *xssh.OpenChannelError
	return errors.As(e.Err, &refused) && refused.Reason == xssh.Prohibited
}

// LostError says that a connection broke while a command ran: it is not known whether the
// command did its work.
type LostError struct {
	Addr string
	Args []string
	Err  error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the connection to %s broke while %s ran; whether it finished is not known: %v",
		e.Addr, remote.Cmd{Args: e.Args}, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// Transient is true: a caller that checks what was done may continue.
func (e *LostError) Transient() bool { return true }

// interruptionError is the error of something that ctx ended.
func interruptionError(ctx context.Context, what string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("%s: %w", what, cause)
	}
	return fmt.Errorf("%s: %w: %w", what, err, cause)
}

// fingerprint names a key for messages, as ssh-keygen -l does.
func fingerprint(k xssh.PublicKey) string {
	return fmt.Sprintf("%s (%s)", xssh.FingerprintSHA256(k), k.Type())
}

func fingerprints(keys []xssh.PublicKey) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = fingerprint(k)
	}
	return out
}

func offeredKeys(signers []xssh.Signer) []string {
	keys := make([]xssh.PublicKey, len(signers))
	for i, s := range signers {
		keys[i] = s.PublicKey()
	}
	return fingerprints(keys)
}
