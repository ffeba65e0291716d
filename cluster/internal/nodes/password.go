package nodes

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// cryptHash matches the output of crypt(5): $method$parameters$salt$hash.
var cryptHash = regexp.MustCompile(`^\$[0-9a-z]+\$[A-Za-z0-9./=,$]+$`)

// HasPassword reports whether the cluster manages the console password of a node's admin user.
// It does not on external machines.
func HasPassword(s *spec.Spec, n spec.Node) bool {
	return !s.Access.PasswordHash.IsZero() && !n.External
}

// PasswordStep sets the console password of the admin user. Its hash is not in the seed:
// anyone who may read the storage could try passwords against it.
func (ns *Nodes) PasswordStep(n spec.Node) *converge.Resource[bool] {
	user := ns.Spec.Access.User
	return &converge.Resource[bool]{
		ID: "password/" + n.Name,
		Observe: func(ctx context.Context) (same bool, err error) {
			want, err := passwordHash(ns.Spec)
			if err != nil {
				return false, converge.Permanent(err)
			}
			out, err := remote.Output(ctx, ns.Root(n.Name), "getent", "shadow", user)
			if err != nil {
				return false, fmt.Errorf("the password of %s: %w", user, err)
			}
			fields := strings.Split(string(out), ":")
			return len(fields) > 1 && fields[1] == want.Reveal(), nil
		},
		Diff: func(same bool) converge.Diff {
			if same {
				return nil
			}
			return converge.Diff{{Path: "password of " + user, Have: "different or not set", Want: "the one of the file", Effect: converge.Update}}
		},
		Apply: func(ctx context.Context, _ bool) error {
			hash, err := passwordHash(ns.Spec)
			if err != nil {
				return err
			}
			return ns.Root(n.Name).Run(ctx, remote.Cmd{
				Args:  []string{"chpasswd", "-e"},
				Stdin: strings.NewReader(user + ":" + hash.Reveal() + "\n"),
			})
		},
	}
}

func passwordHash(s *spec.Spec) (secret.Value, error) {
	hash, err := s.Access.PasswordHash.Resolve()
	if err != nil {
		return hash, fmt.Errorf("ssh.passwordHash: %w", err)
	}
	if !cryptHash.MatchString(hash.Reveal()) {
		return hash, fmt.Errorf("ssh.passwordHash: %s contains no password hash: create one with mkpasswd --method=yescrypt", s.Access.PasswordHash)
	}
	return hash, nil
}
