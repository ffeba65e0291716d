package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// servers is a cluster of so many servers, and one worker.
func servers(n int) string {
	return fmt.Sprintf(`
name: grows
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {vip: 10.0.0.100}
pools:
  cp: {role: server, count: %d, addresses: [10.0.0.11-10.0.0.%d]}
  wk: {count: 1, addresses: [10.0.0.21], gpus: 1, memory: 64GiB}
`, n, 10+n)
}

// One life: servers come and go as the file says, etcd's members with them, and the API stays
// where it is.
func TestServersGrowAndShrink(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		var count *counter
		for _, n := range []int{1, 3, 5, 3, 1} {
			spec := parse(t, strings.Replace(servers(n), "10.0.0.11-10.0.0.11", "10.0.0.11", 1))
			machines := w.guests()
			w.up(t, spec)
			if count == nil {
				time.Sleep(30 * time.Second)
				count = w.counts(t)
			}
			time.Sleep(time.Minute)
			var want []string
			for i := range n {
				want = append(want, fmt.Sprintf("cp%d", i+1))
			}
			for _, name := range want {
				assert.Equal(t, want, w.guests()[name].EtcdMembers(), "%d servers, as %s sees them", n, name)
			}
			for name, m := range machines {
				if slices.Contains(want, name) || name == "wk1" {
					assert.Same(t, m, w.guests()[name], "%s was not restarted", name)
				}
			}
			nodes := w.nodes(t)
			require.Len(t, nodes, n+1, "%d servers", n)
			for name, node := range nodes {
				assert.True(t, node.Ready && !node.Cordoned, "%s: %s", name, node.Reason)
				assert.Equal(t, map[string]string{"server": "True"}[node.Role], node.Voter, name)
			}
			assert.Equal(t, len(nodes)-1, len(w.passwords()), "those of servers that are gone are gone")
			assert.Empty(t, w.plan(t, spec), "%d servers", n)
		}
		writes, longest := count.end(t)
		assert.LessOrEqual(t, longest, silence)
		assert.Greater(t, writes, 100)
		assert.Len(t, w.kube.Clusters(), 1)
	})
}

// passwords names the servers whose node passwords Kubernetes keeps.
func (w *world) passwords() []string {
	var out []string
	for _, name := range w.kube.Clusters()[0].Names("secrets") {
		if strings.Contains(name, "cp") && strings.HasSuffix(name, ".node-password.k3s") {
			out = append(out, name)
		}
	}
	return out
}

// A server that is dead for good is replaced under its name, the one that made the cluster too:
// nothing of the old one is left, and nobody takes a second cluster for the first.
func TestReplaceOfADeadServer(t *testing.T) {
	for _, node := range []string{"cp1", "cp3"} {
		for _, how := range []string{"stop", "destroy"} {
			t.Run(node+" "+how, func(t *testing.T) {
				inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
					spec := threeServers(t)
					w.up(t, spec)
					time.Sleep(time.Minute)
					plane := w.plane(t)
					w.byHand(t, spec, node, how)
					if how == "destroy" { // up makes the machine again, and forgets the old one
						w.up(t, spec)
					} else {
						require.NoError(t, w.verb(t, spec, replacements(t.Context(), node, false)))
					}
					time.Sleep(3 * time.Minute)
					assert.Equal(t, plane, w.plane(t))
					assert.Len(t, w.passwords(), 3)
					for name, n := range w.nodes(t) {
						assert.True(t, n.Ready && !n.Cordoned, "%s: %s", name, n.Reason)
						assert.Equal(t, "True", n.Voter, name)
					}
					assert.Empty(t, w.plan(t, spec))
				})
			})
		}
	}
}
