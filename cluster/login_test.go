package cluster_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// tokenKey is the key that a token's secret gives, and nothing beside it.
func tokenKey(t testing.TB, token string) func(*cluster.Backend) {
	t.Helper()
	key, err := cluster.LoginKey(secret.New(token), "duo")
	require.NoError(t, err)
	return func(b *cluster.Backend) { b.Signers, b.TokenKey = nil, key }
}

// named is a key of somebody's own, and nothing beside it.
func named(t testing.TB) func(*cluster.Backend) {
	t.Helper()
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	signer, err := ssh.ParseSigner(private)
	require.NoError(t, err)
	return func(b *cluster.Backend) { b.Signers = []ssh.Signer{signer} }
}

func (w *world) authorized(t testing.TB, node string) []string {
	t.Helper()
	text := content(t, w.guests()[node], "/home/ubuntu/.ssh/authorized_keys")
	return strings.Split(strings.TrimSpace(text), "\n")
}

// The key is a function of the token's secret and the cluster's name, and must stay one:
// another would have to be planted in every machine.
func TestLoginKey(t *testing.T) {
	for name, want := range map[string]string{
		"one":   "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJnVK8AFzdgyekkeoafDgM/TOE63pnlA87J1ytxMN9o7",
		"other": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHvD6SplpEy95XxKRkXH/fc1EA5pWVWv8KrIWYqVUYYt",
	} {
		key, err := cluster.LoginKey(secret.New("5b9ac1d2-2d4f-4f07-9f3e-0d6b6c9f7a11"), name)
		require.NoError(t, err)
		assert.Equal(t, want, ssh.AuthorizedKey(key.PublicKey()))
		other, err := cluster.LoginKey(secret.New("5b9ac1d2-2d4f-4f07-9f3e-0d6b6c9f7a12"), name)
		require.NoError(t, err)
		assert.NotEqual(t, key.PublicKey().Marshal(), other.PublicKey().Marshal())
	}
	_, err := cluster.LoginKey(secret.Value{}, "one")
	assert.Error(t, err)
}

// There is nothing on this machine that a cluster needs: its folder may go, and another
// machine has never had one.
func TestNothingToLoseHere(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.keys = tokenKey(t, w.token)
		spec := parse(t, duo)
		w.up(t, spec)
		kubeconfig := filepath.Join(w.dir, "kubeconfig")
		require.FileExists(t, kubeconfig)

		require.NoError(t, os.RemoveAll(w.dir))
		assert.Empty(t, w.plan(t, spec))
		assert.NoDirExists(t, w.dir, "a look writes nothing")
		before := w.now()
		w.up(t, spec)
		assert.Equal(t, changes{}, before.changes())
		assert.FileExists(t, kubeconfig)
		assert.FileExists(t, filepath.Join(w.dir, "known_hosts"))

		w.dir = filepath.Join(t.TempDir(), "another", "machine")
		assert.Empty(t, w.plan(t, spec))
		assert.NoDirExists(t, w.dir)
	})
}

// Whoever has another key gets it in, through the guest agents; no machine is made anew,
// restarted or configured for that, and the others' keys stay.
func TestAColleaguesKey(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, duo)
		w.up(t, spec)
		first := w.authorized(t, "cp1")

		w.keys = named(t)
		require.NoError(t, os.Remove(filepath.Join(w.dir, "known_hosts")))
		assert.Equal(t, []string{
			"login: cp1: accepts no key of this run → this run's keys, through its guest agent; " +
				"wk1: accepts no key of this run → this run's keys, through its guest agent",
		}, onlyLogin(w.plan(t, spec)))
		before := w.now()
		w.up(t, spec)
		after := before.changes()
		assert.Empty(t, after.Restarted)
		for _, change := range after.Proxmox {
			assert.Contains(t, change, "/agent/exec")
		}
		assert.Empty(t, w.plan(t, spec))
		for _, node := range []string{"cp1", "wk1"} {
			have := w.authorized(t, node)
			assert.Len(t, have, 2)
			assert.Subset(t, have, first)
		}

		require.NoError(t, w.verb(t, spec, replacements(t.Context(), "wk1", true)), "with another key than it was made with")

		w.keys = nil // the first one's still does, but where the colleague has made the machine
		plan := strings.Join(onlyLogin(w.plan(t, spec)), "")
		assert.NotContains(t, plan, "cp1: ")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
	})
}

// A token whose secret was made anew gives another key: it comes in the place of the one
// before, which somebody may have found out.
func TestATokenWithANewSecret(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, duo)
		w.keys = tokenKey(t, "the first secret")
		w.up(t, spec)
		first := w.authorized(t, "wk1")
		w.keys = tokenKey(t, "the second secret")
		assert.Contains(t, strings.Join(w.plan(t, spec), "\n"), "replaces the key of this token's earlier secret")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		now := w.authorized(t, "wk1")
		assert.Len(t, now, 1)
		assert.NotEqual(t, first, now)

		w.keys = tokenKey(t, "the first secret")
		assert.Contains(t, strings.Join(w.plan(t, spec), "\n"), "→ a login over SSH", "it opens nothing any more")
	})
}

// Without a key that fits, and without an agent, nothing can be done: that is said at
// once, and once, before anything is changed.
func TestNoWayIn(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, duo))
		w.keys = named(t)
		for _, m := range w.guests() {
			require.Zero(t, m.Run(t.Context(), "root", "systemctl stop qemu-guest-agent", io.Discard))
		}
		file := replace(t, duo, "count: 1, addresses: [10.0.0.21]", "count: 2, addresses: [10.0.0.21-10.0.0.22]")
		file = replace(t, file, "gpus: 1", "memory: 5GiB")
		before, begun := w.now(), time.Now()
		_, err := w.cluster(t, parse(t, file)).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "these machines of the cluster accept no key of this run")
		require.ErrorContains(t, err, "cp1: ")
		require.ErrorContains(t, err, "wk1: ")
		require.ErrorContains(t, err, "ssh.privateKey")
		assert.Equal(t, 1, strings.Count(err.Error(), "ssh.privateKey"))
		assert.Equal(t, changes{}, before.changes())
		assert.Less(t, time.Since(begun), time.Minute)

		w.keys = nil // whoever has the key needs no agent
		require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "known_hosts")))
	})
}

// One machine without a way in stops what needs it, and nothing else.
func TestOneMachineWithoutAWayIn(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		base := replace(t, duo, ", gpus: 1", "")
		w.up(t, parse(t, base))
		w.keys = named(t)
		require.Zero(t, w.guests()["wk1"].Run(t.Context(), "root", "systemctl stop qemu-guest-agent", io.Discard))
		file := replace(t, base, "count: 1, addresses: [10.0.0.21]", "count: 2, addresses: [10.0.0.21-10.0.0.22]")
		begun := time.Now()
		report, err := w.cluster(t, parse(t, file)).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "guest/wk1: these machines of the cluster accept no key of this run")
		require.ErrorContains(t, err, "wk1: ")
		require.ErrorContains(t, err, "ssh.privateKey")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		var failed []string
		for _, s := range report.Steps {
			if s.Err != nil {
				failed = append(failed, s.Step)
			}
		}
		assert.Equal(t, []string{"guest/wk1"}, failed)
		for _, step := range []string{"login", "k3s/wk2", "node/wk2"} {
			s, _ := report.Step(step)
			assert.Equal(t, converge.Changed, s.Kind, step)
		}
		assert.Len(t, w.authorized(t, "cp1"), 2)
		assert.Less(t, time.Since(begun), 10*time.Minute)
	})
}

// hushed is a connection that falls silent after some bytes, as that to a machine does that
// hangs: it stays open, and deadlines count.
type hushed struct {
	net.Conn
	left           int
	silent, theirs net.Conn
}

func (h *hushed) Read(b []byte) (int, error) {
	if h.left <= 0 {
		return h.silent.Read(b)
	}
	n, err := h.Conn.Read(b[:min(len(b), h.left)])
	h.left -= n
	return n, err
}

func (h *hushed) SetDeadline(t time.Time) error {
	return errors.Join(h.Conn.SetDeadline(t), h.silent.SetDeadline(t))
}

func (h *hushed) SetReadDeadline(t time.Time) error {
	return errors.Join(h.Conn.SetReadDeadline(t), h.silent.SetReadDeadline(t))
}

func (h *hushed) Close() error {
	return errors.Join(h.Conn.Close(), h.silent.Close(), h.theirs.Close())
}

// A machine that hangs, whether its SSH server says nothing or a login works and then nothing
// is said, holds nobody up who looks at the others.
func TestAMachineThatFallsSilent(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, duo))
		_, public, err := ssh.GenerateKey()
		require.NoError(t, err)
		spec := parse(t, duo+"ssh: {publicKeys: ['"+public+"']}\n")
		for after := 0; after < 4096; after += 256 {
			w.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := w.sim.Network().Dial(ctx, network, addr)
				if err != nil || addr != "10.0.0.21:22" {
					return conn, err
				}
				ours, theirs := net.Pipe()
				return &hushed{conn, after, ours, theirs}, nil
			}
			c := w.cluster(t, spec)
			begun := time.Now()
			plan, err := c.Up().Plan(t.Context())
			require.NoError(t, err)
			for _, it := range plan.Items {
				if it.Step == "login" {
					require.NoError(t, it.Err, "silent after %d bytes", after)
					assert.Contains(t, it.Diff.String(), "cp1: lacks keys of the file")
				}
			}
			assert.Less(t, time.Since(begun), 2*time.Minute)
			c.Close()
		}
	})
}

func onlyLogin(plan []string) (out []string) {
	for _, line := range plan {
		if strings.HasPrefix(line, "login: ") {
			out = append(out, line)
		}
	}
	return out
}

// A key that the file names since reaches the machines that live, over SSH; the keys that
// are there stay.
func TestAKeyThatTheFileNamesSince(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, duo))
		_, public, err := ssh.GenerateKey()
		require.NoError(t, err)
		spec := parse(t, duo+"ssh: {publicKeys: ['"+public+"']}\n")
		assert.Equal(t, []string{"login: cp1: lacks keys of the file → all of ssh.publicKeys; wk1: lacks keys of the file → all of ssh.publicKeys"}, w.plan(t, spec))
		before := w.now()
		w.up(t, spec)
		assert.Empty(t, before.changes().Proxmox)
		assert.Empty(t, before.changes().Restarted)
		assert.Empty(t, w.plan(t, spec))
		assert.Len(t, w.authorized(t, "wk1"), 2)
		assert.Contains(t, w.authorized(t, "wk1"), public)
	})
}

// A machine that is too slow to show its keys is said to be, and is none that lets us in.
func TestASlowLoginIsNoneThatWorks(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, duo)
		w.up(t, spec)
		w.keys = named(t)
		require.Zero(t, w.guests()["wk1"].Run(t.Context(), "root", "systemctl stop qemu-guest-agent", io.Discard))
		w.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := w.sim.Network().Dial(ctx, network, addr)
			if err != nil || addr != "10.0.0.11:22" {
				return conn, err
			}
			ours, theirs := net.Pipe()
			return &hushed{conn, 0, ours, theirs}, nil
		}
		c := w.cluster(t, spec)
		defer c.Close()
		before := w.now()
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "login: these machines of the cluster accept no key of this run")
		assert.Contains(t, w.output.String(), "cp1 takes more than 8s to list its keys")
		assert.Equal(t, changes{}, before.changes())
	})
}
