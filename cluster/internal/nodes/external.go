package nodes

import (
	"context"
	_ "embed" // init.sh
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

//go:embed init.sh
var initScript string

// errNoHostKey means that the host key of an external machine is not known.
var errNoHostKey = errors.New("its host key is not known")

// keysOfOthers returns the host keys of an external machine, if its user has connected to it
// before.
func (ns *Nodes) keysOfOthers(n spec.Node, addr string) ([]ssh.PublicKey, error) {
	if ns.KnownHosts != nil {
		if keys, err := ns.KnownHosts.Lookup(addr); err != nil || len(keys) > 0 {
			return keys, err
		}
	}
	return nil, ns.missingHostKeyError(n, addr)
}

// missingHostKeyError says how to add an external machine's host key. No API can supply the key, since
// this cluster did not make the machine, and the key in its first answer is not trusted.
func (ns *Nodes) missingHostKeyError(n spec.Node, addr string) error {
	name := addr
	if host, port, err := net.SplitHostPort(addr); err == nil { // as known_hosts has it
		if name = host; port != "22" {
			name = "[" + host + "]:" + port
		}
	}
	known := ns.Hosts.Path()
	if ns.KnownHosts != nil {
		known = ns.KnownHosts.Path()
	}
	return fmt.Errorf("%s is external, and %w: log in once with ssh, which shows its fingerprint and asks, "+
		"or put a line with %q and the contents of its %s into %s", n.Name, errNoHostKey, name, hostKeyFile, known)
}

// ExternalStep checks that this run can work on an external machine.
func (ns *Nodes) ExternalStep(n spec.Node) *converge.Resource[string] {
	return &converge.Resource[string]{
		ID:      "login/" + n.Name,
		Observe: func(ctx context.Context) (problem string, err error) { return ns.checkExternal(ctx, n) },
		Diff: func(problem string) converge.Diff {
			if problem == "" {
				return nil
			}
			return converge.Diff{{Have: problem, Want: "a login over SSH", Effect: converge.Create}}
		},
		Settle: ExternalTime,
		Poll:   run.PollInterval,
	}
}

// ExternalTime is how long an external machine may be unreachable: the time of a restart.
const ExternalTime = 2 * time.Minute

// sudo runs commands as root on a machine whose user is not root.
func (s *sharedState) sudo(n spec.Node, user string, r remote.Runner) remote.Runner {
	if n.SudoPassword.IsZero() {
		return remote.Sudo(r)
	}
	key := "sudoPassword of " + n.Name
	if n.SudoPassword == s.Spec.Access.SudoPassword {
		key = "ssh.sudoPassword"
	}
	root := sync.OnceValues(func() (remote.Runner, error) {
		password, err := n.SudoPassword.Resolve()
		return remote.SudoPassword(r, password), err
	})
	return remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
		root, err := root()
		if err != nil {
			return converge.Permanent(fmt.Errorf("%s: %w", key, err))
		}
		err = root.Run(ctx, cmd)
		var refused *remote.SudoError
		if errors.As(err, &refused) {
			err = converge.Permanent(fmt.Errorf("on %s, as user %s with %s (%s), %w; correct the password, or see what sudo -l shows there",
				n.Name, user, key, n.SudoPassword, err))
		}
		return err
	})
}

func (ns *Nodes) checkExternal(ctx context.Context, n spec.Node) (problem string, err error) {
	out, err := remote.Output(ctx, ns.Root(n.Name), "sh", "-c", initScript)
	var exit *remote.ExitError
	var key *ssh.HostKeyError
	var auth *ssh.AuthError
	switch init := strings.TrimSpace(string(out)); {
	case err == nil && init != "":
		return "", converge.Permanent(fmt.Errorf("on %s systemd does not run (its init is %s), and Kubernetes runs here as a unit of systemd: "+
			"install a distribution with systemd there, or take the machine out of the file", n.Name, init))
	case err == nil:
		return "", nil
	case converge.IsPermanent(err):
		return "", err
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &exit):
		user := ns.guests[n.Name].user
		return "", converge.Permanent(fmt.Errorf("on %s the login user may not run sudo without a password: %w\n  write sudoPassword: for it in the file, or run there, as root: %s", n.Name, err,
			"echo "+printable.Word(user+" ALL=(ALL) NOPASSWD:ALL")+" >/etc/sudoers.d/homelab"))
	case errors.As(err, &auth):
		return "", converge.Permanent(fmt.Errorf("%w%s", err, ns.keyHint(n)))
	case errors.As(err, &key), errors.Is(err, errNoHostKey):
		return "", converge.Permanent(err)
	}
	converge.Progressf(ctx, "%s", printable.FirstLine(err.Error()))
	return printable.FirstLine(err.Error()), nil
}

// keyHint says how to add the key that was made for this cluster to an external machine. It
// is empty if the file names the user's own keys.
func (ns *Nodes) keyHint(n spec.Node) string {
	if n.KeyFile != "" || ns.Spec.Access.PrivateKey != "" || ns.Spec.Access.Agent || len(ns.signers()) == 0 {
		return ""
	}
	keys := ns.signers()
	return fmt.Sprintf("; the login key of this cluster is not on the machine: ssh -p %d %s@%s %s",
		n.SSHPort, printable.Word(ns.guests[n.Name].user), n.Address.Addr(),
		printable.Word("umask 077; mkdir -p .ssh; echo "+ssh.AuthorizedKey(keys[len(keys)-1].PublicKey())+" >>.ssh/authorized_keys"))
}
