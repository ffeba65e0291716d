package nodes

import (
	"context"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/remote"
)

// WithProxy is a runner whose commands use the proxy for https if the file names one.
func WithProxy(s *spec.Spec, r remote.Runner) remote.Runner {
	proxy := s.Guest.HTTPSProxy
	if proxy == "" {
		return r
	}
	return remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
		cmd.Args = slices.Concat([]string{"env", "https_proxy=" + proxy}, cmd.Args)
		return r.Run(ctx, cmd)
	})
}
