package session

import (
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// keyFile is the path of a generated key in a cluster's folder.
const keyFile = "id_ed25519"

func makeKey(path string) error {
	private, public, err := ssh.GenerateKey()
	if err != nil {
		return err
	}
	if err := keep.WriteFile(path, private, 0o600); err != nil {
		return err
	}
	return keep.WriteFile(path+".pub", []byte(public+"\n"), 0o644)
}
