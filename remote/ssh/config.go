package ssh

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// Config says how to reach one machine.
type Config struct {
	Addr string // host:port
	User string

	// Signers are the keys to offer, in this order.
	Signers []xssh.Signer

	// Agent is the socket of an SSH agent, usually $SSH_AUTH_SOCK, whose keys are
	// offered after Signers. Empty is none. It is asked at each connect.
	Agent string

	// HostKeys returns the keys that the server at addr is known to have. It is
	// asked at each connect, once the server accepts the connection; a server that shows another key is refused, and
	// so is one of which no key is known.
	HostKeys func(ctx context.Context, addr string) ([]xssh.PublicKey, error)

	// Dial makes the connection that SSH runs over; nil is a plain TCP dial. The
	// Dial of another Client makes that one a jump host.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Via is what messages call the way that Dial goes, e.g. "jump host bastion".
	Via string

	// Timeout bounds dialling, and then the way from there to being let in. 0 is 15 s.
	Timeout time.Duration

	// KeepAlive is how often a connection in use is asked for a sign of life, and
	// how long that may take. 0 is 15 s.
	KeepAlive time.Duration
}

// Pin makes a [Config.HostKeys] of keys that are the same for every address.
func Pin(keys ...xssh.PublicKey) func(context.Context, string) ([]xssh.PublicKey, error) {
	return func(context.Context, string) ([]xssh.PublicKey, error) { return keys, nil }
}

func (c *Config) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return 15 * time.Second
}

func (c *Config) keepAlive() time.Duration {
	if c.KeepAlive > 0 {
		return c.KeepAlive
	}
	return 15 * time.Second
}

func (c *Config) dial(ctx context.Context) (net.Conn, error) {
	if c.Dial != nil {
		return c.Dial(ctx, "tcp", c.Addr)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", c.Addr)
}

// hostKeys asks for the pinned keys.
func (c *Config) hostKeys(ctx context.Context) ([]xssh.PublicKey, error) {
	keys, err := c.HostKeys(ctx, c.Addr)
	if err != nil {
		return nil, fmt.Errorf("host key of %s: %w", c.Addr, err)
	}
	if len(keys) == 0 {
		return nil, &HostKeyError{Addr: c.Addr}
	}
	return keys, nil
}

// signers collects the keys to offer.
func (c *Config) signers(ctx context.Context) ([]xssh.Signer, error) {
	signers := slices.Clone(c.Signers)
	if c.Agent != "" {
		more, err := AgentSigners(ctx, c.Agent)
		if err != nil {
			return nil, err
		}
		signers = append(signers, more...)
	}
	if len(signers) == 0 {
		return nil, &AuthError{Addr: c.Addr, User: c.User}
	}
	return signers, nil
}

// algorithms restricts a connection to what OpenSSH has spoken since 2014 and
// nobody doubts: elliptic (and post-quantum) key exchange and ciphers that
// authenticate what they encrypt.
func algorithms() xssh.Config {
	return xssh.Config{
		KeyExchanges: []string{
			xssh.KeyExchangeMLKEM768X25519, xssh.KeyExchangeCurve25519,
			xssh.KeyExchangeECDHP256, xssh.KeyExchangeECDHP384, xssh.KeyExchangeECDHP521,
		},
		Ciphers: []string{xssh.CipherAES128GCM, xssh.CipherChaCha20Poly1305, xssh.CipherAES256GCM},
		MACs:    []string{xssh.HMACSHA256ETM, xssh.HMACSHA512ETM}, // not used by these ciphers, but may not be empty
	}
}

// hostKeyAlgorithms lists the signature algorithms of the keys' types, so that a
// server with several keys shows one that we know.
func hostKeyAlgorithms(keys []xssh.PublicKey) []string {
	var out []string
	for _, k := range keys {
		of := []string{k.Type()}
		if k.Type() == xssh.KeyAlgoRSA {
			of = []string{xssh.KeyAlgoRSASHA512, xssh.KeyAlgoRSASHA256} // never with SHA-1
		}
		for _, a := range of {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}
