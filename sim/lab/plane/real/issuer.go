package real

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cps-gpu/homelab/sim/guest"
)

var _ guest.PlaneIssuerSetter = (*controlPlane)(nil)

// SetIssuer starts the API server again, by the way of one that has ended, if its arguments about an issuer of tokens change.
// One that does not start with them gets those of before: other servers of the cluster would have them.
func (cp *controlPlane) SetIssuer(ctx context.Context, args []guest.PlaneArgument) error {
	var flags []string
	for _, a := range args {
		if a.File != nil {
			a.Value = filepath.Join(cp.dir, fmt.Sprintf("%s-%x", a.Name, sha256.Sum256(a.File)))
			if err := writeAtomic(a.Value, a.File); err != nil {
				return fmt.Errorf("--%s: %w", a.Name, err)
			}
		}
		flags = append(flags, "--"+a.Name+"="+a.Value)
	}
	cp.mu.Lock()
	before := cp.issuer
	cp.mu.Unlock()
	if slices.Equal(before, flags) {
		return nil
	}
	err := cp.restartWith(ctx, flags)
	if err != nil && ctx.Err() == nil {
		err = errors.Join(err, cp.restartWith(ctx, before))
	}
	return err
}

// restartWith ends the API server, and waits until the next one answers.
func (cp *controlPlane) restartWith(ctx context.Context, flags []string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cp.mu.Lock()
	cp.issuer = flags
	old := cp.running(APIServer)
	cp.mu.Unlock()
	if old == nil {
		return errors.New("the control plane is being stopped")
	}
	old.kill()
	var ended error
	err := until(ctx, "the API server", func(ctx context.Context) error {
		cp.mu.Lock()
		p := cp.running(APIServer)
		cp.mu.Unlock()
		if p == nil || p == old {
			return errors.New("it is being started again")
		}
		if ended = p.ended(); ended != nil {
			return nil
		}
		return cp.readyz(ctx)
	})
	return errors.Join(err, ended)
}

// running is the last start of a component; nil: there is none. cp.mu is held.
func (cp *controlPlane) running(name string) *process {
	i := slices.IndexFunc(cp.procs, func(p *process) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return cp.procs[i]
}
