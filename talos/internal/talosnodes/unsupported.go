package talosnodes

import (
	"context"
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
)

// errNotYet is the error for what homelab does not do on Talos machines.
var errNotYet = errors.New("homelab does not do this on Talos machines: use talosctl")

// notYet says what is not done on Talos machines, and what does it.
func notYet(what string) error {
	return fmt.Errorf("homelab does not do this on Talos machines: nothing %s, and nothing was changed (docs/talos.md)", what)
}

// unsupported is what is missing of a Distribution.
type unsupported struct{}

func (unsupported) Remove(context.Context, spec.Node) error { return errNotYet }
func (unsupported) Rotate(context.Context, spec.Node) error { return errNotYet }
func (unsupported) Certificates(context.Context, string) ([]distribution.Certificate, error) {
	return nil, errNotYet
}
