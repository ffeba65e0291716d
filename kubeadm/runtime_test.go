package kubeadm_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kubeadm"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/sim/guest"
)

// A cluster whose machines have CRI-O is created, looked at, saved and brought to the next minor, whose CRI-O it gets. A
// key of CRI-O's repository that is not the known one is not used, a machine with another runtime is refused, and no
// server is stopped for a restore that could not be made.
func TestCRIO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx, want := newSite(t), t.Context(), wanted()
		of := kubeadm.Release{Version: want.Version, Runtime: kubeadm.CRIO}
		server, first := s.boot(t, "cp1", 11, "noble")
		_, second := s.boot(t, "gpu1", 12, "trixie")
		require.ErrorContains(t, kubeadm.Install(ctx, first, of), "https://download.opensuse.org/repositories/isv:/cri-o:/stable:/v1.36/deb/ is not used: it has the key "+
			guest.CRIOFingerprint+", and should have 85B67D5C50100B1AC8CEFE49CBA9C85640A2B579")
		of.Key = guest.CRIOFingerprint
		for _, r := range []remote.Runner{first, second} {
			require.NoError(t, kubeadm.Install(ctx, r, of))
		}
		withCRIO := func(n kubeadm.Node) kubeadm.Node { n.Runtime = kubeadm.CRIO; return n }
		require.ErrorContains(t, kubeadm.Create(ctx, first, want, node("cp1", 11)), "kubeadm init refuses this machine: CRI: could not connect to the container runtime")
		require.NoError(t, kubeadm.Create(ctx, first, want, withCRIO(node("cp1", 11))))
		token, err := kubeadm.CreateToken(ctx, first, time.Hour, "x")
		require.NoError(t, err)
		require.NoError(t, kubeadm.Join(ctx, second, want, withCRIO(node("gpu1", 12)), token))
		members, err := kubeadm.Members(ctx, first)
		require.NoError(t, err)
		assert.Len(t, members, 1)

		have, err := kubeadm.Observe(ctx, second)
		require.NoError(t, err)
		assert.Equal(t, kubeadm.CRIO, have.Runtime)
		assert.True(t, have.Held && have.Running())
		require.EqualError(t, have.CheckRuntime(""), "its containers run in crio, and should in containerd")
		require.NoError(t, have.CheckRuntime(kubeadm.CRIO))
		require.NoError(t, kubeadm.State{}.CheckRuntime(kubeadm.CRIO))
		require.ErrorContains(t, kubeadm.Upgrade(ctx, second, kubeadm.Release{Version: "v1.37.2"}), "run in crio, and should in containerd")

		require.ErrorContains(t, kubeadm.StopForRestore(ctx, first, want.Version, "x", false), "Nothing was stopped here")
		_, err = kubeadm.SaveSnapshot(ctx, first, "x", "cp1")
		require.NoError(t, err)
		require.NoError(t, kubeadm.RenewCertificates(ctx, first))
		of.Version = "v1.37.2"
		require.NoError(t, kubeadm.UpgradeFirst(ctx, first, of))
		require.NoError(t, kubeadm.Upgrade(ctx, second, of))
		s.isUpgraded(t, of.Version, first, second)
		assert.Contains(t, server.Mutations(), "package cri-o 1.37.1-1.1 installed")
	})
}
