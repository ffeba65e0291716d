package sshserver

import (
	"fmt"

	"golang.org/x/crypto/ssh"
)

// HostKey reads a private key file, in OpenSSH's format or PKCS #8, for
// [Server.HostKey].
func HostKey(pem []byte) (ssh.Signer, error) {
	key, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	return key, nil
}
