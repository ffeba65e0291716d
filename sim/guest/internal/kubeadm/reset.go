package kubeadm

import (
	"context"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

// reset is kubeadm reset without its phase remove-etcd-member: kubelet stops, the pods' containers go, and the folders
// are emptied but not deleted (cmd/phases/reset/cleanupnode.go). Other folders and the packages stay.
func reset(ctx context.Context, p *machine.Proc, opts map[string][]string) int {
	if !getopt.Has(opts, "force", "f") {
		return fails(p, 1, "aborted reset operation")
	}
	if getopt.Last(opts, "skip-phases") != "remove-etcd-member" {
		return fails(p, 1, "kubeadm reset with its phase remove-etcd-member is not simulated")
	}
	if !strings.HasPrefix(getopt.Last(opts, "cri-socket"), "unix:///run/containerd/") {
		return fails(p, 1, "found no CRI socket at %q", getopt.Last(opts, "cri-socket"))
	}
	if p.Wait(ctx, 2*time.Second) != nil {
		return 1
	}
	p.Sys.RecordChange("kubeadm reset")
	_ = systemd.Stop(p.Sys, "kubelet.service")
	v := p.Sys.Root()
	for _, dir := range []string{manifests, kubelet, etc + "/pki"} {
		entries, err := v.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			_ = v.RemoveAll(dir + "/" + e.Name())
		}
	}
	for _, name := range []string{"admin", "super-admin", "kubelet", "bootstrap-kubelet", "controller-manager", "scheduler"} {
		_ = v.Remove(etc + "/" + name + ".conf")
	}
	return 0
}
