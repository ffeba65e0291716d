package targets

import (
	"context"

	"github.com/cps-gpu/homelab/internal/session"
)

// GPUListOptions are the options of [GPUList].
type GPUListOptions struct {
	FileOptions
	session.HostFlags
	OutputOptions
}

// GPUList is gpu:list.
func GPUList(ctx context.Context, o GPUListOptions) error {
	return withFlags(ctx, settings(o.FileOptions, o.OutputOptions), session.GPUList, o.HostFlags)
}

// GPUVerifyOptions are the options of [GPUVerify].
type GPUVerifyOptions struct {
	FileOptions
	session.GPUVerifyFlags
	OutputOptions
	LimitOptions
	ReportOptions
}

// GPUVerify is gpu:verify.
func GPUVerify(ctx context.Context, o GPUVerifyOptions) error {
	s := settings(o.FileOptions, o.OutputOptions, o.LimitOptions, o.ReportOptions)
	return withReport(ctx, s, "gpu:verify", func(s *session.Session, ctx context.Context) error {
		return session.GPUVerify(s, ctx, o.GPUVerifyFlags)
	})
}
