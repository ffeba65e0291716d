package ssh

import (
	"fmt"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// Types of x/crypto, so that callers need not import it.
type (
	Signer    = xssh.Signer
	PublicKey = xssh.PublicKey
)

// ParseAuthorizedKey reads a public key in the format of authorized_keys files and of a host's
// ssh_host_*_key.pub.
func ParseAuthorizedKey(line string) (PublicKey, error) {
	key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return nil, fmt.Errorf("ssh public key %.40q: %w", line, err)
	}
	return key, nil
}

// AuthorizedKey writes a public key as a line of an authorized_keys file, without
// a comment.
func AuthorizedKey(key PublicKey) string {
	return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key)))
}

// Path returns the file's name.
func (k *KnownHosts) Path() string { return k.path }
