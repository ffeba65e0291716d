package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Login connects to user@host or user@host:port as ssh(1) does without configuration: with the
// keys id_ed25519, id_ecdsa and id_rsa of ~/.ssh, or those of the agent at $SSH_AUTH_SOCK if
// the folder has none, and only to machines in ~/.ssh/known_hosts. It does not read
// ~/.ssh/config, and asks nothing: an unknown host key is a [*HostKeyError].
func Login(ctx context.Context, to string) (*Client, error) {
	user, addr, ok := strings.Cut(to, "@")
	if !ok || user == "" || addr == "" {
		return nil, fmt.Errorf("login %q: write user@host or user@host:port", to)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), "22")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("login %s: where keys and known_hosts are: %w", to, err)
	}
	folder := filepath.Join(home, ".ssh")
	cfg := Config{Addr: addr, User: user, HostKeys: NewKnownHosts(filepath.Join(folder, "known_hosts")).HostKeys}
	var unread []error
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		signer, err := LoadSigner(filepath.Join(folder, name))
		switch {
		case err == nil:
			cfg.Signers = append(cfg.Signers, signer)
		case !errors.Is(err, fs.ErrNotExist):
			unread = append(unread, err)
		}
	}
	if len(cfg.Signers) == 0 {
		if cfg.Agent = os.Getenv("SSH_AUTH_SOCK"); cfg.Agent == "" {
			return nil, fmt.Errorf("login %s: no key: make one with ssh-keygen, or set SSH_AUTH_SOCK to an agent that has one: %w", to, errors.Join(unread...))
		}
	}
	return Dial(ctx, cfg)
}
