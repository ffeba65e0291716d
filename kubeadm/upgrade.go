package kubeadm

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/apt"
	"github.com/cps-gpu/homelab/internal/skew"
	"github.com/cps-gpu/homelab/remote"
)

// upgradingFile has the version of a kubelet that runs while the programs of another one are installed.
const upgradingFile = folder + "/upgrading"

// CheckUpgrade returns a [*skew.Error] for a step between two versions that kubeadm does not make: back, or across
// more than one minor (cmd/kubeadm/app/phases/upgrade/policy.go).
func CheckUpgrade(from, to string) error {
	return skew.Versions{
		Program: "Kubernetes", Compare: CompareVersions,
		Minor:   func(v string) (int, bool) { minor, _ := parts(v); return minor, IsVersion(v) },
		Unknown: "the kubelet reports version %q, which is not a release: install a release by hand",
	}.Check(from, to)
}

// UpgradeFirst brings the cluster and one server to another release: kubeadm, what that changes, and then kubelet. The
// runner must be root's. The caller has drained the node. The other servers follow, and then the agents, by [Upgrade].
// kubeadm also renews a server's certificates. One that was cut short is gone on with by the next.
func UpgradeFirst(ctx context.Context, r remote.Runner, to Release) error {
	// CreateJob runs a pod on any node that is not cordoned, also if that has a taint which the pod does not tolerate:
	// with this server drained, no cluster whose agents have taints would pass (cmd/kubeadm/app/phases/upgrade/health.go).
	return upgradeBy(ctx, r, to, "kubeadm", "upgrade", "apply", to.Version, "--yes", "--ignore-preflight-errors=CreateJob")
}

// Upgrade is [UpgradeFirst] for all other members.
func Upgrade(ctx context.Context, r remote.Runner, to Release) error {
	return upgradeBy(ctx, r, to, "kubeadm", "upgrade", "node")
}

func upgradeBy(ctx context.Context, r remote.Runner, to Release, verb ...string) error {
	have, err := Observe(ctx, r)
	if err == nil && !have.Joined {
		err = fmt.Errorf("the machine is not part of a cluster: see Create and Join")
	}
	if err == nil {
		err = CheckUpgrade(have.Version, to.Version)
	}
	if err == nil {
		err = have.CheckRuntime(to.Runtime)
	}
	if err == nil {
		err = upgrade(ctx, r, have, to, verb)
	}
	if err != nil {
		return fmt.Errorf("upgrade Kubernetes: %w", err)
	}
	return nil
}

func upgrade(ctx context.Context, r remote.Runner, have State, to Release, verb []string) error {
	if err := remote.WriteFile(ctx, r, upgradingFile, []byte(have.Version+"\n"), 0o644); err != nil {
		return err
	}
	lists, err := to.prepare(ctx, r)
	if err != nil {
		return err
	}
	if err := apt.Install(ctx, r, to.pins()[:1], lists); err != nil {
		return err
	}
	converge.Progressf(ctx, "kubeadm upgrade %s", verb[2])
	if err := r.Run(ctx, remote.Cmd{Args: verb, Stdout: converge.ProgressWriter(ctx)}); err != nil {
		return checksFailed("upgrade", err)
	}
	if err := to.install(ctx, r, lists); err != nil {
		return err
	}
	if have.kubeVIP != "" {
		if err := remote.Run(ctx, r, "sh", "-c", renewScript, "renew.sh", "kube-vip"); err != nil {
			return err
		}
	}
	for _, do := range [][]string{{"systemctl", "daemon-reload"}, {"systemctl", "restart", "kubelet"}, {"rm", "-f", upgradingFile}} {
		if err := remote.Run(ctx, r, do...); err != nil {
			return err
		}
	}
	return nil
}
