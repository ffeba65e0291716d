package kubeadm

import (
	"context"
	_ "embed" // the script below
	"fmt"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed remove.sh
var removeScript string

// Remove removes Kubernetes from a machine that [Claim] has marked, with its data and with what [Install] has installed.
// Without the mark it changes nothing. The caller first drains the node, and then deletes it from the cluster, and a
// server's member from etcd.
func Remove(ctx context.Context, r remote.Runner) error {
	converge.Progressf(ctx, "removing Kubernetes")
	if err := remote.Run(ctx, r, "sh", "-c", removeScript, "remove.sh"); err != nil {
		return fmt.Errorf("remove Kubernetes: %w", err)
	}
	return nil
}
