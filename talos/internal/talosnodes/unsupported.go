package talosnodes

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/secret"
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
func (unsupported) Secrets(context.Context, string) (map[string]secret.Value, error) {
	return nil, errNotYet
}
func (unsupported) Key(context.Context, string) (secret.Value, error) {
	return secret.Value{}, errNotYet
}
func (unsupported) Fetch(context.Context, string, distribution.SavedSnapshot, io.Writer) error {
	return errNotYet
}
func (unsupported) Delete(context.Context, string, distribution.SavedSnapshot) error {
	return errNotYet
}
func (unsupported) Stop(context.Context, string, string) error       { return errNotYet }
func (unsupported) Finish(context.Context, string) error             { return errNotYet }
func (unsupported) Readmit(context.Context, string, spec.Node) error { return errNotYet }
func (unsupported) Rotate(context.Context, spec.Node) error          { return errNotYet }
func (unsupported) Certificates(context.Context, string) ([]distribution.Certificate, error) {
	return nil, errNotYet
}

// unsupportedMember is what is missing of a Member.
type unsupportedMember struct{}

func (unsupportedMember) SaveSnapshot(context.Context, string) (distribution.SavedSnapshot, error) {
	return distribution.SavedSnapshot{}, errNotYet
}
func (unsupportedMember) FindSnapshot(context.Context, string) (distribution.SavedSnapshot, error) {
	return distribution.SavedSnapshot{}, errNotYet
}
func (unsupportedMember) Restore(context.Context, distribution.Wish, distribution.SavedSnapshot, secret.Value, io.Reader) error {
	return errNotYet
}
