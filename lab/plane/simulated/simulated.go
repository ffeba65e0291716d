// Package simulated makes control planes for clusters of package plane in this process: those of
// package kubesim.
package simulated

import (
	"context"
	"errors"

	"github.com/cps-gpu/homelab/lab/plane"
)

// Start starts a control plane.
func Start(context.Context, plane.Settings) (plane.Control, error) {
	return nil, errors.New("not yet")
}
