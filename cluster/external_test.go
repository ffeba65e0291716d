package cluster_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// strangers is a cluster of machines that nobody here made.
const strangers = `
name: strangers
nodes:
  a: {role: server, external: ops@10.0.0.40}
  b: {external: ops@10.0.0.41, labels: {example.com/site: roof}}
`

// bare binds a spec to machines alone; keys are what the user's own known_hosts says.
func (w *world) bare(t testing.TB, spec *spec.Spec, keys string) *cluster.Cluster {
	t.Helper()
	signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
	require.NoError(t, err)
	c, err := cluster.New(spec, cluster.Backend{
		Signers: []ssh.Signer{signer}, Dial: w.sim.Network().Dial, Dir: w.dir, KnownHosts: ssh.NewKnownHosts(keys),
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// meet writes a machine's key to a known_hosts file, as a first login with ssh does.
func meet(t testing.TB, keys, addr string, m *guest.Machine) {
	t.Helper()
	f, err := os.OpenFile(keys, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = fmt.Fprintf(f, "%s %s\n", addr, strings.TrimSpace(content(t, m, "/etc/ssh/ssh_host_ed25519_key.pub")))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// pair are the machines of strangers, and the file with their host keys.
func (w *world) pair(t testing.TB) (a, b *guest.Machine, keys string) {
	t.Helper()
	a, b, keys = w.external(t, "10.0.0.40"), w.external(t, "10.0.0.41"), filepath.Join(t.TempDir(), "known_hosts")
	meet(t, keys, "10.0.0.40", a)
	meet(t, keys, "10.0.0.41", b)
	return a, b, keys
}

// Machines that exist become a cluster without any Proxmox, leave it one by one, and are
// left as they were.
func TestNoProxmox(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a, b := w.external(t, "10.0.0.40"), w.external(t, "10.0.0.41")
		defer a.Kill()
		defer b.Kill()
		spec := parse(t, strangers)
		assert.False(t, spec.HasProxmox())
		keys := filepath.Join(t.TempDir(), "known_hosts")

		_, err := w.bare(t, spec, keys).Up().Run(t.Context(), nil)
		require.ErrorContains(t, err, "a is external, and its host key is not known: log in once with ssh, which shows its fingerprint and asks, or put a line with \"10.0.0.40\"")
		require.ErrorContains(t, err, keys)
		meet(t, keys, "10.0.0.40", a)
		meet(t, keys, "10.0.0.41", b)

		other, err := ssh.LoadSigner(w.otherKey(t))
		require.NoError(t, err)
		stranger, err := cluster.New(spec, cluster.Backend{
			Signers: []ssh.Signer{other}, Dial: w.sim.Network().Dial, Dir: w.dir, KnownHosts: ssh.NewKnownHosts(keys),
		})
		require.NoError(t, err)
		_, err = stranger.Up().Run(t.Context(), nil)
		require.ErrorContains(t, err, "the login key of this cluster is not on the machine: ssh -p 22 ops@10.0.0.40 'umask 077; mkdir -p .ssh; echo "+ssh.AuthorizedKey(other.PublicKey())+" >>.ssh/authorized_keys'")

		own, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
		require.NoError(t, err)
		half, err := cluster.New(spec, cluster.Backend{
			Signers: []ssh.Signer{other}, MachineKeys: map[string]ssh.Signer{"a": own}, Dial: w.sim.Network().Dial, Dir: w.dir, KnownHosts: ssh.NewKnownHosts(keys),
		})
		require.NoError(t, err)
		t.Cleanup(half.Close)
		_, err = half.Up().Run(t.Context(), nil)
		require.ErrorContains(t, err, "ssh -p 22 ops@10.0.0.41 ")
		assert.NotContains(t, err.Error(), "ops@10.0.0.40 ", "a has a key of its own")

		run := func(c *cluster.Cluster) {
			t.Helper()
			_, err := c.Up().Run(t.Context(), w.listen(t))
			require.NoError(t, err)
			plan, err := c.Up().Plan(t.Context())
			require.NoError(t, err)
			require.NoError(t, plan.Err())
			assert.False(t, plan.Changes())
		}
		run(w.bare(t, spec, keys))
		assert.Equal(t, "roof", w.nodes(t)["b"].Labels["example.com/site"])
		assert.Empty(t, w.mutations(), "nobody asks Proxmox")

		// One machine joins anew.
		before := content(t, b, "/etc/rancher/node/password")
		g, err := w.bare(t, spec, keys).NodeReplace(t.Context(), "b", false)
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.NotEqual(t, before, content(t, b, "/etc/rancher/node/password"))
		run(w.bare(t, spec, keys))

		// And leaves for good.
		g, err = w.bare(t, spec, keys).NodeRemove(t.Context(), "b", false)
		require.NoError(t, err)
		plan, err := g.Plan(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, plan.Items[len(plan.Items)-1].Costs)
		assert.Equal(t, "b is destroyed", plan.Items[len(plan.Items)-1].Costs[0].String())
		assert.Equal(t, "K3s is removed with its data; the machine itself stays", plan.Items[len(plan.Items)-1].Costs[0].Reason)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.NotContains(t, w.nodes(t), "b")
		assert.False(t, b.Disk().Exists("/usr/local/bin/k3s"))
		assert.True(t, b.Running())

		_, err = w.bare(t, spec, keys).NodeRemove(t.Context(), "a", false)
		require.ErrorContains(t, err, "it is the only server")

		run(w.bare(t, parse(t, strings.Join(strings.Split(strangers, "\n")[:5], "\n")), keys))
		w.bareDown(t, spec, keys)
		assert.False(t, a.Disk().Exists("/usr/local/bin/k3s"))
		assert.True(t, a.Running())
	})
}

func (w *world) bareDown(t testing.TB, spec *spec.Spec, keys string) {
	t.Helper()
	g, err := w.bare(t, spec, keys).Down(t.Context())
	require.NoError(t, err)
	_, err = g.Run(t.Context(), w.listen(t))
	require.NoError(t, err)
}

// Verbs about hosts say that there are none.
func TestNoProxmoxNoHosts(t *testing.T) {
	c, err := cluster.New(parse(t, strangers), cluster.Backend{Dir: t.TempDir()})
	require.NoError(t, err)
	for name, ask := range map[string]func() error{
		"check":     func() error { _, err := c.HostCheck(t.Context(), nil); return err },
		"templates": func() error { _, err := c.Templates(t.Context()); return err },
		"prune":     func() error { _, err := c.Prune(t.Context()); return err },
		"cards":     func() error { _, err := c.GPUs(t.Context()); return err },
	} {
		require.ErrorIs(t, ask(), cluster.ErrNoProxmox, name)
	}
	_, err = c.NodeCycle(t.Context(), "b", false)
	require.ErrorContains(t, err, "the machine is external")
}

// The verbs for external machines have the time that the file gives all steps.
func TestExternalPatience(t *testing.T) {
	c, err := cluster.New(parse(t, strangers+"patience: 3\n"), cluster.Backend{Dir: t.TempDir()})
	require.NoError(t, err)
	for name, verb := range map[string]func(context.Context, string, bool) (*converge.Graph, error){"replace": c.NodeReplace, "remove": c.NodeRemove} {
		g, err := verb(t.Context(), "b", false)
		require.NoError(t, err, name)
		assert.Equal(t, 3, g.Patience, name)
	}
}

// otherKey is a login key that nobody knows.
func (w *world) otherKey(t testing.TB) string {
	t.Helper()
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "id")
	require.NoError(t, os.WriteFile(path, private, 0o600))
	return path
}

// TestLeaseWithoutProxmox: runs over external machines meet on the first server.
func TestLeaseWithoutProxmox(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a, b := w.external(t, "10.0.0.40"), w.external(t, "10.0.0.41")
		defer a.Kill()
		defer b.Kill()
		keys := filepath.Join(t.TempDir(), "known_hosts")
		meet(t, keys, "10.0.0.40", a)
		spec := parse(t, strangers)
		claim := func(who string) converge.LeaseClaim {
			return converge.LeaseClaim{What: "cluster strangers", Holder: who, Purpose: "cluster:up"}
		}
		_, l, err := converge.AcquireLease(t.Context(), w.bare(t, spec, keys).Lease(), claim("teacher"), func(converge.LeaseHolder) error { return nil })
		require.NoError(t, err)
		assert.Contains(t, content(t, a, "/var/lib/homelab-strangers.lease"), "holder: teacher\n")
		time.Sleep(10 * time.Minute)
		require.NoError(t, l.Check(t.Context()))

		_, _, err = converge.AcquireLease(t.Context(), w.bare(t, spec, keys).Lease(), claim("student1"), func(h converge.LeaseHolder) error {
			return &converge.LeaseHeldError{What: "cluster strangers", LeaseHolder: h}
		})
		require.ErrorContains(t, err, "teacher since ")
		require.NoError(t, l.Release(t.Context()))
		assert.False(t, a.Disk().Exists("/var/lib/homelab-strangers.lease"))

		a.Kill()
		begin := time.Now()
		_, _, err = converge.AcquireLease(t.Context(), w.bare(t, spec, keys).Lease(), claim("student1"), nil)
		require.ErrorContains(t, err, "cannot reach 10.0.0.40:22")
		assert.InDelta(t, 10, time.Since(begin).Minutes(), 1)
	})
}

// On a machine without systemd nothing changes, and the error says what is there instead.
func TestExternalWithoutSystemd(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a, b, keys := w.pair(t)
		defer a.Kill()
		defer b.Kill()
		refused := func(change, init string) {
			t.Helper()
			require.Zero(t, b.Run(t.Context(), "root", change, io.Discard))
			_, err := w.bare(t, parse(t, strangers), keys).Up().Run(t.Context(), w.listen(t))
			require.ErrorContains(t, err, "on b systemd does not run (its init is "+init+")")
			require.ErrorContains(t, err, "install a distribution with systemd there")
			assert.False(t, b.Disk().Exists("/usr/local/bin/k3s"))
			assert.False(t, b.Disk().Exists("/etc/rancher"))
		}
		refused("rm -r /run/systemd; echo init >/proc/1/comm", "init")
		refused("echo >/usr/sbin/openrc-run; chmod 755 /usr/sbin/openrc-run", "init, with OpenRC")

		require.Zero(t, b.Run(t.Context(), "root", "mkdir -p /run/systemd/system", io.Discard))
		_, err := w.bare(t, parse(t, strangers), keys).Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
	})
}
