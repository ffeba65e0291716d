package talosnodes

import "github.com/cps-gpu/homelab/talos/internal/secrets"

// With returns a Keeper that has these secrets.
func With(b *secrets.Bundle) *Keeper { return &Keeper{bundle: b} }
