package members

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/cps-gpu/homelab/cluster/internal/occupants"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/kubeconfig"
)

// owns returns nil if the Kubernetes on a machine belongs to this cluster or to none. An external
// machine may have been a member of another cluster before it was added to the file, and may
// still be one. Names and addresses alone prove nothing, since many sites use the same ones.
// Proof is the mark that Up writes, together with the address or the authority of this
// cluster's API. A server that has not joined another is its own authority. A machine without this
// cluster's Kubernetes has none of another tool either.
func (ks *Kubernetes) owns(ctx context.Context, n spec.Node, member distribution.Member) error {
	switch have := member.State(); {
	case !n.External:
		return nil
	case have.Cluster != "" || have.Role != "" || have.Configured || have.Authority != "":
		return ownsMarked(ctx, ks, n, member)
	case ks.Spec.Sealed: // no other tool installs anything there, and nobody could look
		return nil
	}
	found, err := occupants.Observe(ctx, ks.Nodes.Root(n.Name))
	if err != nil {
		return err
	}
	if why := found.Others(ks.Distribution.Facts().Step, n.Name); why != "" {
		return distribution.Means(fmt.Errorf("on the external machine %s: %s", n.Name, why), distribution.ErrForeign)
	}
	return nil
}

// ownsMarked asks the mark of a machine on which something was set up.
func ownsMarked(ctx context.Context, ks *Kubernetes, n spec.Node, member distribution.Member) error {
	have := member.State()
	if have.Cluster != ks.Spec.Name {
		return member.Foreign()
	}
	if have.API == "" || have.API == distribution.APIURL(ks.Spec) || have.Authority == "" { // it creates this cluster, or was never in one
		return nil
	}
	ours, err := ks.authorities(ctx, n)
	if err != nil || ours[have.Authority] {
		return err
	}
	return member.Foreign()
}

// ClusterExists reports whether anything but a server itself says that this cluster exists.
func (ks *Kubernetes) ClusterExists(ctx context.Context, n spec.Node) (bool, error) {
	ours, err := ks.authorities(ctx, n)
	return len(ours) > 0, err
}

// authorities are the certificate authorities that are known to belong to this cluster: that
// of the local kubeconfig, and those of its servers. It leaves out what the machine but says
// about itself.
func (ks *Kubernetes) authorities(ctx context.Context, but spec.Node) (map[string]bool, error) {
	ours := map[string]bool{}
	b, err := os.ReadFile(ks.Kubeconfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if ca, err := kubeconfig.Authority(b); err == nil {
			sum := sha256.Sum256(ca)
			ours[hex.EncodeToString(sum[:])] = true
		}
	}
	for _, n := range ks.Spec.Servers() {
		if n.Name == but.Name || ks.Nodes.Observation(n.Name).Absent.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, askTime)
		have, err := ks.Distribution.Observe(ctx, n)
		cancel()
		if err != nil {
			continue
		}
		if s := have.State(); s.Authority != "" && (!n.External || s.Cluster == ks.Spec.Name) {
			ours[s.Authority] = true
		}
	}
	return ours, nil
}

// CheckOwnServer returns an error if the Kubernetes of an external server does not belong to this
// cluster: nothing that this server says about its cluster may be used.
func (ks *Kubernetes) CheckOwnServer(ctx context.Context, name string) error {
	n, _ := ks.Spec.Node(name)
	met := ks.Nodes.Observation(name)
	if !n.External || met.Owned.Load() {
		return nil
	}
	have, err := ks.Member(ctx, n)
	if err == nil && have.State().Cluster != "" {
		met.Owned.Store(true)
	}
	return err
}

// claim records the owner of an external machine, before anything else is installed.
func (ks *Kubernetes) claim(ctx context.Context, n spec.Node, have distribution.State) error {
	if !n.External || have.Cluster == ks.Spec.Name {
		return nil
	}
	if err := ks.Distribution.Claim(ctx, n); err != nil {
		return fmt.Errorf("mark %s on %s as ours: %w", ks.title(), n.Name, err)
	}
	return nil
}

// InspectExternal says what keeps Kubernetes from external machines, of all at once; only names, if there are any. The
// step of a machine that does not answer says that.
func InspectExternal(ctx context.Context, ks *Kubernetes, names ...string) error {
	i, ok := ks.Distribution.(distribution.Inspector)
	if !ok {
		return nil
	}
	var errs []error
	for _, n := range ks.Spec.Nodes {
		if !n.External || len(names) > 0 && !slices.Contains(names, n.Name) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, run.Limit(ks.Spec, askTime))
		err := i.Inspect(ctx, n)
		cancel()
		if errors.Is(err, distribution.ErrUnfit) {
			errs = append(errs, err)
		}
	}
	return converge.Permanent(errors.Join(errs...))
}

// PermanentIfForeign makes the error for a machine of another cluster permanent.
func PermanentIfForeign(err error) error {
	if IsForeign(err) {
		return converge.Permanent(err)
	}
	return err
}
