package ssh

import (
	"context"
	"errors"
	"net"

	xssh "golang.org/x/crypto/ssh"
)

// errShown ends a handshake that only reads the server's key.
var errShown = errors.New("ssh: the key was shown")

// HostKey returns the key that the server at cfg.Addr shows now, and disconnects. It may be
// another server's: before it is trusted, a person has to compare its [Fingerprint] with the
// one on the machine's console. It does not log in, so cfg needs no keys and no HostKeys.
func HostKey(ctx context.Context, cfg Config) (PublicKey, error) {
	bounded, cancel := context.WithTimeout(ctx, cfg.timeout())
	defer cancel()
	nc, err := cfg.dial(bounded)
	if err != nil {
		return nil, connectError(ctx, &cfg, err)
	}
	defer func() { _ = nc.Close() }()
	defer context.AfterFunc(bounded, func() { _ = nc.Close() })()
	var shown xssh.PublicKey
	_, _, _, err = xssh.NewClientConn(nc, cfg.Addr, &xssh.ClientConfig{
		Config: algorithms(),
		User:   "nobody",
		// The server has proved that it has the private half.
		HostKeyCallback: func(_ string, _ net.Addr, key xssh.PublicKey) error {
			shown = key
			return errShown
		},
		HostKeyAlgorithms: []string{
			xssh.KeyAlgoED25519, xssh.KeyAlgoECDSA256, xssh.KeyAlgoECDSA384, xssh.KeyAlgoECDSA521,
			xssh.KeyAlgoRSASHA512, xssh.KeyAlgoRSASHA256,
		},
	})
	if shown != nil {
		return shown, nil
	}
	return nil, connectError(ctx, &cfg, err)
}

// Fingerprint names a key as ssh-keygen -l does: SHA256:….
func Fingerprint(key PublicKey) string { return xssh.FingerprintSHA256(key) }
