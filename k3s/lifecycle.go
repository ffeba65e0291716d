package k3s

import (
	"context"
	_ "embed" // the script below
	"fmt"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed remove.sh
var removeScript string

// UpgradeServer brings a machine where K3s runs to another release and to what s says, and
// returns once the restart is requested. The caller upgrades servers before agents, one at a
// time, and drains them.
func UpgradeServer(ctx context.Context, r remote.Runner, release Release, s Server) error {
	if release.Version != s.Version {
		return fmt.Errorf("upgrade a server: the release is %s and the spec says %s", release.Version, s.Version)
	}
	if err := upgrade(ctx, r, release); err != nil {
		return err
	}
	return s.apply(ctx, r)
}

// UpgradeAgent is [UpgradeServer] for an agent.
func UpgradeAgent(ctx context.Context, r remote.Runner, release Release, j Join) error {
	if release.Version != j.Agent.Version {
		return fmt.Errorf("upgrade an agent: the release is %s and the spec says %s", release.Version, j.Agent.Version)
	}
	if err := upgrade(ctx, r, release); err != nil {
		return err
	}
	return JoinAgent(ctx, r, j)
}

func upgrade(ctx context.Context, r remote.Runner, release Release) error {
	have, err := Observe(ctx, r)
	if err != nil {
		return err
	}
	if err := CheckUpgrade(have.Version, release.Version); err != nil {
		return err
	}
	_, err = Install(ctx, r, release)
	return err
}

// Remove removes K3s with all its data from the machine. The caller first drains the node and
// deletes it from the cluster.
func Remove(ctx context.Context, r remote.Runner) error {
	converge.Progressf(ctx, "removing k3s")
	if err := remote.Run(ctx, r, "sh", "-c", removeScript, "remove.sh"); err != nil {
		return fmt.Errorf("remove k3s: %w", err)
	}
	return nil
}
