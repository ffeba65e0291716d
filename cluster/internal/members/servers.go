package members

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/secret"
)

// ErrNoServer means that no server of the cluster is up.
var ErrNoServer = errors.New("no server of the cluster runs Kubernetes")

// ErrUnformed means that every server was asked and none has a cluster. A server that could
// not be asked may have one.
var ErrUnformed = fmt.Errorf("%w, nor ever did", ErrNoServer)

// askServers returns the answer of the first server that has one.
func (ks *Kubernetes) askServers(ctx context.Context, but string, ask question) (secret.Value, error) {
	failed := map[string]error{}
	for _, n := range ks.Spec.Servers() {
		if n.Name == but {
			continue
		}
		answer, err := ks.askServer(ctx, n.Name, ask)
		if err == nil {
			return answer, nil
		}
		failed[n.Name] = err
	}
	return secret.Value{}, ks.serversError(failed)
}

// askSoon is askServers for something that every server may be asked for at once: if the first one does
// not have it, the others are. Servers that do not answer then cost as much time as one of them, and
// if none accepts a connection, none is asked.
func (ks *Kubernetes) askSoon(ctx context.Context, ask question) (secret.Value, error) {
	servers := ks.Spec.Servers()
	if silent := ks.unreachableServers(ctx, servers); len(servers) == 0 || silent != nil {
		return secret.Value{}, ks.serversError(silent)
	}
	first, err := ks.askServer(ctx, servers[0].Name, ask)
	if err == nil {
		return first, nil
	}
	failed := map[string]error{servers[0].Name: err}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		server string
		value  secret.Value
		err    error
	}
	answers := make(chan answer, len(servers))
	for _, n := range servers[1:] {
		go func() {
			value, err := ks.askServer(ctx, n.Name, ask)
			answers <- answer{n.Name, value, err}
		}()
	}
	for range servers[1:] {
		a := <-answers
		if a.err == nil {
			return a.value, nil
		}
		failed[a.server] = a.err
	}
	return secret.Value{}, ks.serversError(failed)
}

// unreachableServers returns why none of the servers accepts a connection, or nil if one does. Those whose machine
// was made just now are not asked.
func (ks *Kubernetes) unreachableServers(ctx context.Context, servers []spec.Node) map[string]error {
	var there []string
	absent := map[string]error{}
	for _, n := range servers {
		if ks.Nodes.Observation(n.Name).Absent.Load() {
			absent[n.Name] = errAbsent
		} else {
			there = append(there, n.Name)
		}
	}
	failed := ks.Nodes.UnreachableReasons(ctx, there)
	if failed != nil {
		maps.Copy(failed, absent)
	}
	return failed
}

// serversError is the error for servers that failed, in the order of the file.
func (ks *Kubernetes) serversError(failed map[string]error) error {
	var errs []error
	why := ErrUnformed
	for _, n := range ks.Spec.Servers() {
		err := failed[n.Name]
		if err == nil {
			continue
		}
		if !errors.Is(err, distribution.ErrNoCluster) && !errors.Is(err, errAbsent) {
			why = ErrNoServer
		}
		errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
	}
	if len(errs) == 0 { // there is no other server
		return why
	}
	return fmt.Errorf("%w: %w", why, errors.Join(errs...))
}
