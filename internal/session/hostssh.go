package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// HostRunner returns a root shell on a Proxmox VE host, and a function that closes it. The
// login is -ssh, the host's ssh: in the file, or root@NAME:22; a user other than root needs
// sudo without a password. It connects at the first command.
//
// The host's key must be in ~/.ssh/known_hosts. If it is not, its fingerprint is compared with
// -fingerprint, or shown with a question.
func (s *Session) HostRunner(ctx context.Context, f HostFlags, host string) (remote.Runner, func(), error) {
	var cfg ssh.Config
	var err error
	if s.hostWay != nil {
		cfg, err = s.hostWay(ctx, host)
	} else {
		cfg, err = s.siteHost(ctx, f, host)
	}
	if err != nil {
		return nil, nil, err
	}
	client := ssh.New(cfg)
	var r remote.Runner = client
	if cfg.User != "root" {
		r = remote.Sudo(r)
	}
	return r, func() { _ = client.Close() }, nil
}

// siteHost connects to a real host.
func (s *Session) siteHost(ctx context.Context, f HostFlags, host string) (ssh.Config, error) {
	cfg := s.hostAddress(f, host)
	home, err := os.UserHomeDir()
	if err != nil {
		return cfg, err
	}
	cfg.Signers, cfg.Agent, err = operatorKeys(filepath.Join(home, ".ssh"))
	if err != nil {
		return cfg, exitError(invalid, fmt.Errorf("host %s: %w", host, err))
	}
	known := ssh.NewKnownHosts(filepath.Join(home, ".ssh", "known_hosts"))
	cfg.HostKeys = known.HostKeys
	keys, err := known.Lookup(cfg.Addr)
	if err != nil {
		return cfg, err
	}
	if len(keys) == 0 {
		return cfg, s.firstContact(ctx, cfg, known, f.Fingerprint)
	}
	return cfg, nil
}

// hostAddress returns the address of a host's SSH server, and the user.
func (s *Session) hostAddress(f HostFlags, host string) ssh.Config {
	login := f.SSH
	if login == "" {
		for _, h := range s.Spec.Proxmox.Hosts {
			if h.Name == host {
				login = h.SSH
			}
		}
	}
	login = cmp.Or(login, "root@"+host)
	user, addr, ok := strings.Cut(login, "@")
	if !ok {
		user, addr = "root", login
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), "22")
	}
	return ssh.Config{Addr: addr, User: user}
}

// operatorKeys returns the keys that ssh(1) would offer: the agent's, and the usual files.
func operatorKeys(dir string) (signers []ssh.Signer, agent string, err error) {
	agent = os.Getenv("SSH_AUTH_SOCK")
	var why []error
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		signer, err := ssh.LoadSigner(filepath.Join(dir, name))
		switch {
		case err == nil:
			signers = append(signers, signer)
		case !errors.Is(err, fs.ErrNotExist):
			why = append(why, err)
		}
	}
	if len(signers) == 0 && agent == "" {
		why = append(why, fmt.Errorf("no key to log in with: neither an SSH agent (SSH_AUTH_SOCK) nor %s/id_ed25519; make one with ssh-keygen and copy it to the host with ssh-copy-id", dir))
		return nil, "", errors.Join(why...)
	}
	if agent != "" {
		if _, err := os.Stat(agent); err != nil && len(signers) > 0 {
			agent = "" // it went away, and is not needed
		}
	}
	return signers, agent, nil
}

// firstContact asks whether a server's key is the right one, as ssh(1) does, and stores it
// where ssh(1) would.
func (s *Session) firstContact(ctx context.Context, cfg ssh.Config, known *ssh.KnownHosts, fingerprint string) error {
	key, err := ssh.HostKey(ctx, cfg)
	if err != nil {
		return err
	}
	got := ssh.Fingerprint(key)
	const compare = "on the host: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
	switch want := strings.TrimSpace(fingerprint); {
	case want == got, want != "" && "SHA256:"+want == got:
	case want != "":
		return exitErrorf(refused, "%s shows the key %s (%s) and -fingerprint says %s: nothing was sent to it", cfg.Addr, got, key.Type(), want)
	case s.JSON || !term.IsTerminal(int(os.Stdin.Fd())):
		return exitErrorf(refused, "the key of %s is not known, and there is no terminal to ask on: it shows %s (%s). Compare that (%s) and add -fingerprint=%s", cfg.Addr, got, key.Type(), compare, got)
	default:
		s.Printf("The key of %s is not in %s. It shows %s (%s).\nCompare it (%s).", cfg.Addr, known.Path(), got, key.Type(), compare)
		if err := ask(ctx, s.Console, "Is it the same? Type yes: ", "yes"); err != nil {
			return err
		}
	}
	return known.Store(cfg.Addr, key)
}

// labHost connects to a simulated host, through the lab's jump host.
func labHost(lab labctl.State, signer ssh.Signer, jump *ssh.Client) func(context.Context, string) (ssh.Config, error) {
	return func(_ context.Context, host string) (ssh.Config, error) {
		h, ok := lab.Hosts[host]
		if !ok {
			return ssh.Config{}, exitErrorf(invalid, "the lab has no host %s that accepts logins", host)
		}
		key, err := ssh.ParseAuthorizedKey(h.HostKey)
		if err != nil {
			return ssh.Config{}, err
		}
		return ssh.Config{
			Addr: h.Address, User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key),
			Dial: jump.Dial, Via: "the lab's jump host",
		}, nil
	}
}

// hostsOf returns the hosts of a command: the one that -host names, or all of the file.
func (s *Session) hostsOf(f HostFlags) ([]spec.Host, error) {
	all := s.Spec.Proxmox.Hosts
	if f.Host == "" {
		return all, nil
	}
	var names []string
	for _, h := range all {
		if h.Name == f.Host {
			return []spec.Host{h}, nil
		}
		names = append(names, h.Name)
	}
	return nil, exitErrorf(invalid, "-host=%s: the file has no such host; it has %s", f.Host, strings.Join(names, ", "))
}

// machineKeys loads the keys of nodes that name one.
func machineKeys(nodes []spec.Node) (map[string]ssh.Signer, error) {
	keys := map[string]ssh.Signer{}
	for _, n := range nodes {
		if n.KeyFile == "" {
			continue
		}
		signer, err := ssh.LoadSigner(n.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("privateKey of %s: %w", n.Name, err)
		}
		keys[n.Name] = signer
	}
	return keys, nil
}
