package k3s_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// TestRestore is the way back: a snapshot is saved, found and fetched; K3s is stopped, etcd is made of the snapshot with the token of
// then, and the server starts from it.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := newSite(t)
		r, token, _ := s.form(1)
		have, err := k3s.Observe(ctx, r)
		require.NoError(t, err)
		_, err = k3s.SaveSnapshot(ctx, r, have, "../x")
		require.EqualError(t, err, `save a snapshot: "../x" cannot begin its name: write letters, digits, '-' and '.'`)
		saved, err := k3s.SaveSnapshot(ctx, r, have, "before")
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(saved.Name(), "before-cp1-"), saved.Name())
		assert.Equal(t, "/var/lib/rancher/k3s/server/db/snapshots/"+saved.Name(), saved.Path)
		found, err := k3s.FindSnapshot(ctx, r, have, saved.Name())
		require.NoError(t, err)
		assert.Equal(t, saved, found)
		_, err = k3s.FindSnapshot(ctx, r, have, "other")
		require.ErrorIs(t, err, k3s.ErrNoSnapshot)
		_, err = k3s.FindSnapshot(ctx, r, have, "../etcd")
		require.EqualError(t, err, `"../etcd" is not the name of a snapshot: k3s etcd-snapshot ls lists them`)
		var data bytes.Buffer
		require.NoError(t, saved.Fetch(ctx, r, &data))
		assert.EqualValues(t, saved.Size, data.Len())
		sum := sha256.Sum256(data.Bytes())
		assert.Equal(t, hex.EncodeToString(sum[:]), saved.SHA256)

		spec := s.server("cp1", 11)
		from := k3s.Restore{Name: saved.Name(), Size: saved.Size, SHA256: saved.SHA256, Token: token}
		restore := func(spec k3s.Server, from k3s.Restore) error {
			return k3s.RestoreServer(ctx, r, spec, from, bytes.NewReader(data.Bytes()))
		}
		require.EqualError(t, restore(spec, from), "restore a server: K3s runs on it; stop it with StopForRestore")
		require.NoError(t, k3s.StopForRestore(ctx, r, "the  cluster\nof now"))
		before, err := k3s.TokenBeforeRestore(ctx, r)
		require.NoError(t, err)
		assert.Equal(t, token.Reveal(), before.Reveal())
		for want, change := range map[string]func(*k3s.Server, *k3s.Restore){
			"restore a server: URL must be empty, and Token must be set": func(s *k3s.Server, _ *k3s.Restore) { s.URL = url },
			"URL must be empty, and Token must be set":                   func(_ *k3s.Server, f *k3s.Restore) { f.Token = secret.Value{} },
			"is not the name of a snapshot":                              func(_ *k3s.Server, f *k3s.Restore) { f.Name = "a/b" },
			"and should be v1.35":                                        func(s *k3s.Server, _ *k3s.Restore) { s.Version = "v1.35.1+k3s1" },
			"restore a server: ":                                         func(s *k3s.Server, _ *k3s.Restore) { s.Version = "1" },
			k3s.ErrRestoreToken.Error():                                  func(_ *k3s.Server, f *k3s.Restore) { f.Token = secret.New("K10abc::server:another") },
		} {
			spec, from := spec, from
			change(&spec, &from)
			require.ErrorContains(t, restore(spec, from), want)
		}
		endless := remote.RunnerFunc(func(ctx context.Context, c remote.Cmd) error {
			if slices.Contains(c.Args, "reset.sh") {
				return &remote.ExitError{Code: 124}
			}
			return r.Run(ctx, c)
		})
		require.ErrorContains(t, k3s.RestoreServer(ctx, endless, spec, from, bytes.NewReader(data.Bytes())), "K3s made no etcd of the snapshot within 10m0s")
		require.NoError(t, restore(spec, from))
		require.NoError(t, k3s.StartServer(ctx, r, spec))
		s.up(r, k3s.RoleServer, func(st k3s.State) string { return spec.Diff(st).String() })
		require.NoError(t, k3s.FinishRestore(ctx, r))
		now, err := k3s.Token(ctx, r)
		require.NoError(t, err)
		assert.NotEmpty(t, now.Reveal())

		certs, err := k3s.Certificates(ctx, r)
		require.NoError(t, err)
		require.NotEmpty(t, certs)
		assert.True(t, slices.IsSortedFunc(certs, func(a, b k3s.Certificate) int { return a.Until.Compare(b.Until) }))
		authorities := 0
		for _, c := range certs {
			assert.True(t, strings.HasSuffix(c.File, ".crt") && !strings.HasPrefix(c.File, "tls/") && c.From.Before(c.Until), "%+v", c)
			assert.Equal(t, strings.HasSuffix(c.File, "-ca.crt"), c.Authority, "%+v", c)
			if c.Authority {
				authorities++
			}
		}
		assert.NotZero(t, authorities)
		time.Sleep(time.Hour)
		require.NoError(t, k3s.RotateCertificates(ctx, r, k3s.RoleServer))
		s.up(r, k3s.RoleServer, func(st k3s.State) string { return spec.Diff(st).String() })
		renewed, err := k3s.Certificates(ctx, r)
		require.NoError(t, err)
		assert.True(t, renewed[0].From.After(certs[0].From), "they are new")
		require.EqualError(t, k3s.RotateCertificates(ctx, r, k3s.RoleNone), "rotate k3s' certificates: there is no K3s on this machine")

		require.NoError(t, saved.Delete(ctx, r))
		_, err = k3s.FindSnapshot(ctx, r, have, saved.Name())
		require.ErrorIs(t, err, k3s.ErrNoSnapshot)
	})
}

// TestRescueFails: whatever fails says what was to be done, and keeps its cause.
func TestRescueFails(t *testing.T) {
	lost := errors.New("the connection is lost")
	ctx := t.Context()
	r := remote.RunnerFunc(func(context.Context, remote.Cmd) error { return lost })
	snapshot := k3s.Snapshot{Path: "/x/before-cp1-1"}
	for want, do := range map[string]func() error{
		"stop k3s for a restore: ":           func() error { return k3s.StopForRestore(ctx, r, "x") },
		"":                                   func() error { return k3s.FinishRestore(ctx, r) },
		"save a snapshot: ":                  func() error { _, err := k3s.SaveSnapshot(ctx, r, k3s.State{}, "x"); return err },
		"fetch the snapshot before-cp1-1: ":  func() error { return snapshot.Fetch(ctx, r, &bytes.Buffer{}) },
		"delete the snapshot before-cp1-1: ": func() error { return snapshot.Delete(ctx, r) },
		"read k3s' certificates: ":           func() error { _, err := k3s.Certificates(ctx, r); return err },
		"rotate k3s' certificates: ":         func() error { return k3s.RotateCertificates(ctx, r, k3s.RoleAgent) },
		"write the agent's token: ":          func() error { return k3s.UseToken(ctx, r, token) },
		"the connection is lost\nthere is no snapshot of that name": func() error {
			_, err := k3s.FindSnapshot(ctx, r, k3s.State{}, "x")
			return err
		},
	} {
		err := do()
		require.ErrorIs(t, err, lost, want)
		assert.True(t, strings.HasPrefix(err.Error(), want), err)
	}
	// A snapshot is described by its place, size and digest, whatever its folder.
	have := k3s.State{Config: map[string]any{"etcd-snapshot-dir": "/mnt/x"}}
	sum := strings.Repeat("0a", 32)
	for said, fails := range map[string]bool{"/mnt/x/a\n5\n" + sum + "  /mnt/x/a\n": false, "": true, "/mnt/x/a\n5\n": true, "/mnt/x/a\nmuch\n" + sum: true, "/mnt/x/a\n5\nabc": true, "/mnt/x/\x01\n5\n" + sum: true} {
		var dir string
		got, err := k3s.SaveSnapshot(ctx, remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
			dir = c.Args[len(c.Args)-1]
			_, err := c.Stdout.Write([]byte(said))
			return err
		}), have, "a")
		assert.Equal(t, "/mnt/x", dir)
		assert.Equal(t, fails, err != nil, "%q", said)
		if !fails {
			assert.Equal(t, k3s.Snapshot{Path: "/mnt/x/a", Size: 5, SHA256: sum}, got)
		}
	}
	for said, want := range map[string]string{"\n@@ /var/lib/x/tls/a.crt\n": "the output was truncated after 25 bytes",
		"\n@@ /var/lib/x/tls/a.crt\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n\n@@ end\n": "read k3s' certificates: /var/lib/x/tls/a.crt: "} {
		_, err := k3s.Certificates(ctx, remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
			_, err := c.Stdout.Write([]byte(said))
			return err
		}))
		require.ErrorContains(t, err, want)
	}
}

// TestUseToken: an agent gets the token in its file, and is restarted after that.
func TestUseToken(t *testing.T) {
	m := newMachine(t)
	var ran []string
	require.NoError(t, k3s.UseToken(t.Context(), remote.RunnerFunc(func(ctx context.Context, c remote.Cmd) error {
		if c.Args[0] == "systemctl" {
			ran = append(ran, strings.Join(c.Args, " ")+" with "+m.read("etc/rancher/k3s/token"))
			return nil
		}
		return m.Run(ctx, c)
	}), token))
	assert.Equal(t, []string{"systemctl restart --no-block k3s-agent with " + token.Reveal() + "\n"}, ran)
}

// What may take long is announced before it begins.
func TestWhatTakesLongIsAnnounced(t *testing.T) {
	var said []string
	ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { said = append(said, u.Message) })
	silent := remote.RunnerFunc(func(context.Context, remote.Cmd) error { return nil })
	_ = k3s.StopForRestore(ctx, silent, "x")
	_, _ = k3s.SaveSnapshot(ctx, silent, k3s.State{}, "x")
	_ = k3s.RotateCertificates(ctx, silent, k3s.RoleAgent)
	_ = k3s.UseToken(ctx, silent, token)
	_, _ = k3s.Install(ctx, silent, k3s.Release{Version: version})
	_ = k3s.Remove(ctx, silent)
	assert.Equal(t, []string{
		"stopping k3s", "saving a snapshot of etcd", "rotating the certificates of k3s agent", "restarting k3s agent", "installing k3s " + version, "removing k3s",
	}, said)
}
