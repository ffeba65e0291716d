package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// kubeadmServers is a cluster of so many servers and one worker, whose Kubernetes kubeadm sets up.
func kubeadmServers(t testing.TB, n int, more string) *spec.Spec {
	t.Helper()
	text := strings.Replace(servers(n), "k3s: {vip: 10.0.0.100}", "distribution: kubeadm\nkubeadm: {vip: 10.0.0.100"+more+"}", 1)
	return parse(t, strings.Replace(text, "10.0.0.11-10.0.0.11", "10.0.0.11", 1)+fmt.Sprintf("charts: {folder: %s, offline: true}\n", charts(t)))
}

// areKubeadmServers checks that the servers, and nobody else, are etcd's members, and that all is as the file says.
func (w *world) areKubeadmServers(t *testing.T, s *spec.Spec) {
	t.Helper()
	time.Sleep(3 * time.Minute)
	var want []string
	for _, n := range s.Servers() {
		want = append(want, n.Name)
	}
	for _, name := range want {
		assert.Equal(t, want, w.guests()[name].EtcdMembers(), "as %s sees them", name)
	}
	nodes := w.nodes(t)
	assert.Len(t, nodes, len(s.Nodes))
	for name, n := range nodes {
		assert.True(t, n.Ready && !n.Cordoned, "%s: %s", name, n.Reason)
		assert.Equal(t, s.K3s.Version, n.Version, name)
	}
	assert.Len(t, w.kube.Clusters(), 1)
	before := w.now()
	assert.Empty(t, w.plan(t, s))
	assert.Empty(t, changedSteps(w.up(t, s)))
	assert.Equal(t, changes{}, before.changes())
}

// Servers with kubeadm come and go as the file says, etcd's members with them, and the API stays where it is, also
// when the server that has its address loses its power, and after all of them were off. They go to another version
// one after the other, the first one with the cluster, get other certificates, and are removed.
func TestServersWithKubeadm(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		var s *spec.Spec
		for _, n := range []int{1, 3, 5, 3} {
			s = kubeadmServers(t, n, "")
			w.up(t, s)
			w.areKubeadmServers(t, s)
		}
		holder := w.sim.Network().Host(s.K3s.VIP).(*guest.Machine)
		holder.Kill()
		time.Sleep(2 * time.Minute)
		assert.NotEqual(t, holder, w.sim.Network().Host(s.K3s.VIP), "another server has the address")
		require.NoError(t, holder.Boot(t.Context()))
		w.areKubeadmServers(t, s)
		for _, m := range w.guests() {
			m.Kill()
			require.NoError(t, m.Boot(t.Context()))
		}
		w.up(t, s)
		w.areKubeadmServers(t, s)

		s = kubeadmServers(t, 3, ", version: v1.37.2")
		w.up(t, s)
		w.areKubeadmServers(t, s)
		guests := w.guests()
		assert.Contains(t, guests["cp1"].Mutations(), "kubeadm upgrade apply v1.37.2")
		for _, name := range []string{"cp2", "cp3"} {
			assert.Contains(t, guests[name].Mutations(), "kubeadm upgrade node")
			assert.Contains(t, guests[name].Mutations(), "crictl stop kube-vip", "its login was renewed")
		}

		c := w.cluster(t, s)
		defer c.Close()
		_, err := c.RotateCerts().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		w.areKubeadmServers(t, s)
		w.down(t, s)
		assert.Empty(t, w.guests())
	})
}

// A server is replaced under its name, the one that created the cluster too: its member of etcd is removed first, and
// the new machine joins.
func TestReplaceOfAServerWithKubeadm(t *testing.T) {
	for _, node := range []string{"cp1", "cp3"} {
		for _, how := range []string{"alive", "stop", "destroy"} {
			t.Run(node+" "+how, func(t *testing.T) {
				inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
					s := kubeadmServers(t, 3, "")
					w.up(t, s)
					time.Sleep(time.Minute)
					if how != "alive" {
						w.byHand(t, s, node, how)
					}
					if how == "destroy" { // up makes the machine again, and forgets the old one
						w.up(t, s)
					} else {
						require.NoError(t, w.verb(t, s, replacements(t.Context(), node, false)))
					}
					w.areKubeadmServers(t, s)
				})
			})
		}
	}
}

// A run that dies at a request to Proxmox or to Kubernetes is finished by the next.
func TestCrashWithServersOfKubeadm(t *testing.T) {
	s := kubeadmServers(t, 3, "")
	want, requests := smooth(t, pvesim.EightA100(), s)
	mine := share.Start(t, "deaths while kubeadm's servers join")
	for n := 3; n <= len(requests); n += 7 {
		if !mine.Next() {
			continue
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				defer time.Sleep(3 * time.Minute) // what still dials gives up
				w.crash(t, s, n, n%2 == 0)
				time.Sleep(time.Duration(n%3) * 10 * time.Second)
				w.recovers(t, s, want)
				w.areKubeadmServers(t, s)
			})
		})
	}
}

// The same at times: also what is said to machines is cut short.
func TestCrashAtAnyTimeWithServersOfKubeadm(t *testing.T) {
	s := kubeadmServers(t, 3, "")
	want, _ := smooth(t, pvesim.EightA100(), s)
	mine := share.Start(t, "deaths at times while kubeadm's servers join")
	for at := 50 * time.Second; at < 125*time.Second; at += 1700 * time.Millisecond {
		if !mine.Next() {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				defer time.Sleep(3 * time.Minute)
				require.False(t, w.cut(t, s, at))
				w.recovers(t, s, want)
				w.areKubeadmServers(t, s)
			})
		})
	}
}
