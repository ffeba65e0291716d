package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/spec"
)

// errNoHostKey is an external machine whose host key nobody has told us.
var errNoHostKey = errors.New("its host key is not known")

// keysOfOthers returns the host keys of a machine that somebody else made, as far as its
// user has met it.
func (c *Cluster) keysOfOthers(n spec.Node, addr string) ([]ssh.PublicKey, error) {
	if c.KnownHosts != nil {
		if keys, err := c.KnownHosts.Lookup(addr); err != nil || len(keys) > 0 {
			return keys, err
		}
	}
	return nil, c.noHostKey(n, addr)
}

// noHostKey says how to make an external machine's host key known: it is not ours,
// so no API can be asked for it, and the first answer is not believed.
func (c *Cluster) noHostKey(n spec.Node, addr string) error {
	name := "[" + strings.Replace(addr, ":", "]:", 1)
	if host, ok := strings.CutSuffix(addr, ":22"); ok {
		name = host
	}
	known := c.hosts.Path()
	if c.KnownHosts != nil {
		known = c.KnownHosts.Path()
	}
	return fmt.Errorf("%s is external, and %w: log in once with ssh, which shows its fingerprint and asks, "+
		"or put a line with %q and the contents of its %s into %s", n.Name, errNoHostKey, name, hostKeyFile, known)
}

// externalStep sees that a machine that we do not make can be worked on.
func (c *Cluster) externalStep(n spec.Node) *converge.Resource[string] {
	return &converge.Resource[string]{
		ID:      "login/" + n.Name,
		Observe: func(ctx context.Context) (problem string, err error) { return c.lookAtExternal(ctx, n) },
		Diff: func(problem string) drift.Diff {
			if problem == "" {
				return nil
			}
			return drift.Diff{{Have: problem, Want: "a login over SSH", Effect: drift.Create}}
		},
		Settle: externalTime,
		Poll:   run.LookEvery,
	}
}

// externalTime is how long an external machine may be away: a restart.
const externalTime = 2 * time.Minute

func (c *Cluster) lookAtExternal(ctx context.Context, n spec.Node) (problem string, err error) {
	err = remote.Run(ctx, c.root(n.Name), "true")
	var exit *remote.ExitError
	var key *ssh.HostKeyError
	var auth *ssh.AuthError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &exit):
		return "", converge.Permanent(fmt.Errorf("on %s the login user may not run sudo without a password: %w", n.Name, err))
	case errors.As(err, &auth):
		return "", converge.Permanent(fmt.Errorf("%w%s", err, c.keyHint(n)))
	case errors.As(err, &key), errors.Is(err, errNoHostKey):
		return "", converge.Permanent(err)
	}
	progress.Say(ctx, "%s", printable.FirstLine(err.Error()))
	return printable.FirstLine(err.Error()), nil
}

// keyHint says how a key that was made for this cluster gets to a machine that somebody
// else made; nothing where the file names the user's own keys.
func (c *Cluster) keyHint(n spec.Node) string {
	if c.spec.Access.PrivateKey != "" || c.spec.Access.Agent || len(c.signers()) == 0 {
		return ""
	}
	keys := c.signers()
	return fmt.Sprintf("; the login key of this cluster is not on the machine: ssh -p %d %s@%s 'umask 077; mkdir -p .ssh; echo %s >>.ssh/authorized_keys'",
		n.SSHPort, c.guests[n.Name].user, n.Address.Addr(), ssh.AuthorizedKey(keys[len(keys)-1].PublicKey()))
}

// externalDriverStep waits for a driver that is its owner's to install.
func (c *Cluster) externalDriverStep(n spec.Node) *converge.Resource[driverSeen] {
	return &converge.Resource[driverSeen]{
		ID: "driver/" + n.Name,
		Observe: func(ctx context.Context) (driverSeen, error) {
			seen, err := nvidia.ObserveDriver(ctx, c.root(n.Name))
			return driverSeen{DriverState: seen}, err
		},
		Diff: func(s driverSeen) drift.Diff {
			const note = "the machine is external: install it there"
			d := nvidia.DiffGPUs(s.DriverState, n.GPUs.Count)
			if s.Loaded == "" {
				d = drift.Diff{{Path: "driver", Have: "not loaded", Want: "a driver of NVIDIA's", Effect: drift.Create, Note: note}}
			}
			if s.Runtime == "" {
				d = append(d, drift.Field{Path: "toolkit", Have: "none", Want: "nvidia-container-runtime", Effect: drift.Create, Note: note})
			}
			return d
		},
		Settle: 10 * time.Second,
	}
}

// releaseStep takes K3s off a machine that is not ours to destroy.
func (c *Cluster) releaseStep(n spec.Node) *converge.Resource[k3s.State] {
	return &converge.Resource[k3s.State]{
		ID: "k3s/" + n.Name,
		Observe: func(ctx context.Context) (k3s.State, error) {
			have, err := k3s.Observe(ctx, c.root(n.Name))
			if err == nil {
				err = c.owns(ctx, n, have)
			}
			var others *OthersK3sError
			if errors.As(err, &others) {
				progress.Say(ctx, "left alone: %s", others)
				return k3s.State{}, nil
			}
			return have, err
		},
		Diff: func(have k3s.State) drift.Diff {
			if have.Cluster == "" && have.Role == k3s.RoleNone { // the binary may belong to another owner
				return nil
			}
			return drift.Unwanted("K3s on the external machine " + n.Name)
		},
		Costs:  c.costsOfRelease(n),
		Apply:  func(ctx context.Context, _ k3s.State) error { return k3s.Remove(ctx, c.root(n.Name)) },
		Settle: externalTime,
	}
}
