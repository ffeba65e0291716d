package kubeadm_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kubeadm"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/sim/guest"
)

// twoMachines are a server and an agent of a cluster.
func (s *site) twoMachines(t *testing.T) (server *guest.Machine, first, second remote.Runner) {
	t.Helper()
	want, ctx := wanted(), t.Context()
	server, first = s.boot(t, "cp1", 11, "noble")
	_, second = s.boot(t, "gpu1", 12, "noble")
	for _, r := range []remote.Runner{first, second} {
		require.NoError(t, kubeadm.Install(ctx, r, kubeadm.Release{Version: want.Version}))
	}
	require.NoError(t, kubeadm.Create(ctx, first, want, node("cp1", 11)))
	token, err := kubeadm.CreateToken(ctx, first, time.Hour, "x")
	require.NoError(t, err)
	require.NoError(t, kubeadm.Join(ctx, second, want, node("gpu1", 12), token))
	return server, first, second
}

// isUpgraded waits until both nodes run a release, and compares what the machines have with it.
func (s *site) isUpgraded(t *testing.T, to string, first, second remote.Runner) {
	t.Helper()
	ctx, want := t.Context(), wanted()
	want.Version = to
	eventually(t, func() bool { all := s.nodes(t, first); return all["cp1"].Version == to && all["gpu1"].Version == to })
	for role, r := range map[kubeadm.Role]remote.Runner{kubeadm.Server: first, kubeadm.Agent: second} {
		have, err := kubeadm.Observe(ctx, r)
		require.NoError(t, err)
		assert.Empty(t, have.Diff(want, kubeadm.Node{}, role))
		require.NoError(t, have.CheckSettings(want))
	}
	text, err := remote.Output(ctx, first, "cat", "/etc/kubernetes/manifests/kube-apiserver.yaml")
	require.NoError(t, err)
	assert.Contains(t, string(text), "kube-apiserver:"+to)
}

// A cluster goes to a patch and to the next minor, the server first, with a snapshot before. Back and across a minor
// are refused.
func TestUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := newSite(t), t.Context()
		_, first, second := s.twoMachines(t)
		none, err := kubeadm.Snapshots(ctx, first)
		require.NoError(t, err)
		assert.Empty(t, none)
		for _, to := range []string{"v1.36.6", "v1.37.2"} {
			saved, err := kubeadm.SaveSnapshot(ctx, first, "before-"+to, "cp1")
			require.NoError(t, err)
			assert.Less(t, time.Since(saved.Created), time.Minute)
			all, err := kubeadm.Snapshots(ctx, first)
			require.NoError(t, err)
			assert.Contains(t, all, saved)
			if to == "v1.37.2" {
				require.ErrorContains(t, kubeadm.Upgrade(ctx, second, kubeadm.Release{Version: to}), "the servers are upgraded first")
			}
			require.NoError(t, kubeadm.UpgradeFirst(ctx, first, kubeadm.Release{Version: to}))
			require.NoError(t, kubeadm.Upgrade(ctx, second, kubeadm.Release{Version: to}))
			s.isUpgraded(t, to, first, second)
		}
		require.EqualError(t, kubeadm.UpgradeFirst(ctx, first, kubeadm.Release{Version: "v1.36.6"}), "upgrade Kubernetes: Kubernetes cannot go from v1.37.2 to v1.36.6: Kubernetes cannot be downgraded")
		require.ErrorContains(t, kubeadm.CheckUpgrade("v1.34.12", "v1.36.5"), "write a v1.35 release first")
		require.ErrorContains(t, kubeadm.CheckUpgrade("v1.37.0-rc.1", "v1.37.2"), "not a release")
	})
}

// An upgrade that is cut short at any moment, by the end of the session or of the power, is seen as one, and gone on
// with.
func TestAnUpgradeThatIsCutShort(t *testing.T) {
	const to = "v1.37.2"
	for _, power := range []bool{false, true} {
		for cut := 200 * time.Millisecond; cut < 40*time.Second; cut = cut*3/2 + time.Second/3 {
			t.Run(cut.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, ctx := newSite(t), t.Context()
					server, first, second := s.twoMachines(t)
					short, cancel := context.WithTimeout(ctx, cut)
					over := kubeadm.UpgradeFirst(short, first, kubeadm.Release{Version: to})
					cancel()
					if power {
						server.Kill()
						require.NoError(t, server.Boot(ctx))
						time.Sleep(2 * time.Minute) // in synctest's time
					}
					if have, err := kubeadm.Observe(ctx, first); err == nil && over != nil {
						want := wanted()
						want.Version = to
						assert.NotEmpty(t, have.Diff(want, kubeadm.Node{}, kubeadm.Server))
					}
					eventually(t, func() bool { return kubeadm.UpgradeFirst(ctx, first, kubeadm.Release{Version: to}) == nil })
					eventually(t, func() bool { return kubeadm.Upgrade(ctx, second, kubeadm.Release{Version: to}) == nil })
					s.isUpgraded(t, to, first, second)
				})
			})
		}
	}
}

// Certificates of a server are renewed, with the programs that have them restarted. The authorities stay.
func TestRenewCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := newSite(t), t.Context()
		server, first, second := s.twoMachines(t)
		before, err := kubeadm.Certificates(ctx, first)
		require.NoError(t, err)
		time.Sleep(time.Hour) // in synctest's time
		require.NoError(t, kubeadm.RenewCertificates(ctx, first))
		after, err := kubeadm.Certificates(ctx, first)
		require.NoError(t, err)
		require.Len(t, after, len(before))
		until := map[string]time.Time{}
		for _, c := range before {
			until[c.File] = c.Until
		}
		for _, c := range after {
			kept := c.Authority || c.File == "admin.conf" || c.File == "super-admin.conf" || c.File == "controller-manager.conf" || c.File == "scheduler.conf" // the simulated one has ten years
			assert.Equal(t, kept, until[c.File].Equal(c.Until), c.File)
		}
		for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			assert.Contains(t, server.Mutations(), "crictl stop "+name)
		}
		eventually(t, func() bool { return kubeadm.Ready(ctx, first) == nil })
		require.ErrorContains(t, kubeadm.RenewCertificates(ctx, second), "admin.conf")
	})
}
