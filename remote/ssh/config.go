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

	// Agent is the socket of an SSH agent, usually $SSH_AUTH_SOCK, whose keys are offered
	// after Signers; empty for none. It is asked at each connect.
	Agent string

	// HostKeys returns the known keys of the server at addr. It is called at each connect, once the server accepts
	// the connection. A server with another key, or without a known key, is refused.
	HostKeys func(ctx context.Context, addr string) ([]xssh.PublicKey, error)

	// Dial makes the connection that SSH runs over; nil is a plain TCP dial. The Dial of
	// another Client uses that as a jump host.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Via is the name of Dial's route in messages, e.g. "jump host bastion".
	Via string

	// Timeout limits dialling, and then the handshake and login. 0 is 15 s.
	Timeout time.Duration

	// KeepAlive is the interval of keep-alive requests on a connection in use, and how long an
	// answer may take. 0 is 15 s.
	KeepAlive time.Duration
}

// Pin returns a [Config.HostKeys] with the same keys for every address.
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

// algorithms restricts a connection to undisputed algorithms that OpenSSH has had since 2014:
// elliptic (and post-quantum) key exchange and authenticated encryption.
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

// hostKeyAlgorithms lists the signature algorithms of the keys' types, so that a server with
// several keys shows a known one.
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
