package talosnodes

import (
	"context"

	"github.com/cps-gpu/homelab/talos/internal/image"
	"github.com/cps-gpu/homelab/talos/internal/secrets"
)

// With returns a Keeper that has these secrets, and gives schematics to post.
func With(b *secrets.Bundle, post func(context.Context, string, []byte) error) *Keeper {
	return &Keeper{bundle: b, Factory: &image.Factory{Post: post}}
}
