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
)

// A start that is cut short at any moment, by the end of the session or of the power, is gone on with: the cluster is
// the same one afterwards, and the machine a member.
func TestAStartThatIsCutShort(t *testing.T) {
	for _, power := range []bool{false, true} {
		for cut := 200 * time.Millisecond; cut < 20*time.Second; cut = cut*3/2 + time.Second/3 {
			t.Run(cut.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, want, ctx := newSite(t), wanted(), t.Context()
					server, first := s.boot(t, "cp1", 11, "noble")
					agent, second := s.boot(t, "gpu1", 12, "noble")
					for _, r := range []remote.Runner{first, second} {
						require.NoError(t, kubeadm.Install(ctx, r, kubeadm.Release{Version: want.Version}))
					}
					create := func(ctx context.Context) error { return kubeadm.Create(ctx, first, want, node("cp1", 11)) }
					var token kubeadm.Token
					join := func(ctx context.Context) error { return kubeadm.Join(ctx, second, want, node("gpu1", 12), token) }
					for _, do := range []func(context.Context) error{create, join} {
						short, cancel := context.WithTimeout(ctx, cut)
						_ = do(short)
						cancel()
						if m := server; power {
							if token.ID != "" {
								m = agent
							}
							m.Kill()
							require.NoError(t, m.Boot(ctx))
							time.Sleep(2 * time.Minute) // in synctest's time
						}
						var err error
						eventually(t, func() bool { err = do(ctx); return err == nil })
						if token.ID == "" {
							token, err = kubeadm.CreateToken(ctx, first, time.Hour, "")
							require.NoError(t, err)
						}
					}
					for role, r := range map[kubeadm.Role]remote.Runner{kubeadm.Server: first, kubeadm.Agent: second} {
						eventually(t, func() bool {
							have, err := kubeadm.Observe(ctx, r)
							return err == nil && have.Diff(want, kubeadm.Node{}, role).Empty()
						})
					}
					assert.Len(t, s.nodes(t, first), 2)
				})
			})
		}
	}
}

// Nothing joins another cluster, or with a token that has ended; a machine on which somebody else has set up
// Kubernetes is refused by kubeadm itself, and no error has the token.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want, ctx := newSite(t), wanted(), t.Context()
		server, first := s.boot(t, "cp1", 11, "noble")
		_, second := s.boot(t, "gpu1", 12, "noble")
		require.ErrorContains(t, kubeadm.Install(ctx, first, kubeadm.Release{Version: "v1.36.5+k3s1"}), `"v1.36.5+k3s1" is not a release`)
		require.ErrorContains(t, kubeadm.Install(ctx, first, kubeadm.Release{Version: "v1.36.99"}), "Version '1.36.99-*' for 'kubeadm' was not found")
		for _, r := range []remote.Runner{first, second} {
			require.NoError(t, kubeadm.Install(ctx, r, kubeadm.Release{Version: want.Version}))
		}
		require.NoError(t, server.Disk().WriteFile("/etc/kubernetes/manifests/kube-scheduler.yaml", []byte("theirs\n"), 0o600))
		for range 2 {
			require.EqualError(t, kubeadm.Create(ctx, first, want, node("cp1", 11)), "create a cluster: kubeadm init refuses this machine: "+
				"FileAvailable--etc-kubernetes-manifests-kube-scheduler.yaml: /etc/kubernetes/manifests/kube-scheduler.yaml already exists")
		}
		require.NoError(t, remote.Run(ctx, first, "rm", "-r", "/etc/kubernetes/manifests"))
		require.NoError(t, kubeadm.Create(ctx, first, want, node("cp1", 11)))

		token, err := kubeadm.CreateToken(ctx, first, time.Minute, "")
		require.NoError(t, err)
		time.Sleep(time.Hour) // in synctest's time
		err = kubeadm.Join(ctx, second, want, node("gpu1", 12), token)
		require.ErrorContains(t, err, "could not find a JWS signature")
		assert.NotContains(t, err.Error(), token.Seal().Reveal()[:23])
		_, err = kubeadm.CreateToken(ctx, first, 0, "")
		require.ErrorContains(t, err, "write at least 1s")
		require.ErrorContains(t, kubeadm.Join(ctx, first, want, node("cp1", 11), token), "the machine is server of a cluster and should be agent")
	})
}
