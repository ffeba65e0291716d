package distribution

import (
	"context"

	"github.com/cps-gpu/homelab/remote"
)

// Files are what machines get installed.
type Files interface {
	// Fill installs in a template, through its guest agent, what every clone needs. TemplateRelease identifies that: a
	// template with another text is another template. "": nothing.
	Fill(ctx context.Context, guest remote.Runner) error
	TemplateRelease() string
	// URL must be reachable from here if machines download what they need; "": they do not.
	URL() string
	// CheckFiles says which files are missing on this machine that nodes get from here, and CheckSums which of them
	// are not what they should be.
	CheckFiles() error
	CheckSums(ctx context.Context) error
}
