package life_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
)

// vault is a backup, and what decrypts it.
type vault struct {
	key  *age.X25519Identity
	file []byte
}

func (v vault) open() (*backup.Reader, io.Closer, error) {
	r, err := backup.Open(bytes.NewReader(v.file), v.key)
	return r, io.NopCloser(nil), err
}

func (w *world) backup(t *testing.T, s *spec.Spec) vault {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	c := w.cluster(t, s)
	defer c.Close()
	var out bytes.Buffer
	m, _, err := c.Backup(t.Context(), &out, []age.Recipient{key.Recipient()})
	require.NoError(t, err)
	assert.Equal(t, []string{"talos", "v1.36.2", "Kubernetes v1.36.2"}, []string{m.Distribution(), m.Version(), m.Program()})
	left, err := filepath.Glob(filepath.Join(w.dir, ".homelab", "etcd", "*"))
	require.NoError(t, err)
	assert.Empty(t, left, "nothing is left on this computer")
	return vault{key, out.Bytes()}
}

func (w *world) restore(ctx context.Context, t *testing.T, s *spec.Spec, v vault) error {
	t.Helper()
	r, _, err := v.open()
	require.NoError(t, err)
	c := w.cluster(t, s)
	defer c.Close()
	g, err := c.Restore(r.Contents, v.open)
	require.NoError(t, err)
	_, err = g.Run(ctx, func(e converge.Event) {
		if e.Kind != converge.Checking && testing.Verbose() {
			t.Log(e.Time.Format("15:04:05"), e.Kind, e.Step, e.Diff, e.Message, e.Err)
		}
	})
	return err
}

// isRestored checks that the cluster is as it was when it had one ConfigMap.
func (w *world) isRestored(t *testing.T, when string) {
	t.Helper()
	assert.Contains(t, w.configMaps(), "before", when)
	assert.NotContains(t, w.configMaps(), "after", when)
	assert.Equal(t, []string{"cp1", "cp2", "cp3"}, w.net.Members(), when)
	assert.Equal(t, map[string]string{"cp1": "server v1.36.2", "cp2": "server v1.36.2", "cp3": "server v1.36.2", "w1": "agent v1.36.2"}, w.nodes(t), when)
}

// What was there when the backup was made is there again, and what came later is gone: on the same machines, and on new ones.
func TestRestoreOfTalos(t *testing.T) {
	for _, machines := range []string{"same", "new"} {
		t.Run(machines, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := w.file(t, cp1+cp2+cp3+w1)
				w.up(t, s)
				w.apply(t, "before")
				v := w.backup(t, s)
				r, _, err := v.open()
				require.NoError(t, err)
				files := map[string]string{}
				require.NoError(t, json.Unmarshal([]byte(r.Token.Reveal()), &files))
				assert.Contains(t, files["secrets.yaml"], "secretboxencryptionsecret")
				w.apply(t, "after")
				if machines == "new" {
					w.down(t, s)
					w.up(t, s)
					assert.NotContains(t, w.configMaps(), "before")
				}
				require.NoError(t, w.restore(t.Context(), t, s, v))
				w.isRestored(t, machines)
				w.up(t, s)
				w.isRestored(t, machines)
				assert.Empty(t, w.plan(t, s))
				for _, address := range []string{"10.0.0.11", "10.0.0.12", "10.0.0.13"} {
					assert.NotContains(t, w.net.Machine(address).Config(), "restoring")
				}
			})
		})
	}
}

// What a restore takes is asked for before: the disk of each server is one of the costs.
func TestRestoreOfTalosAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.file(t, cp1+w1)
		w.up(t, s)
		v := w.backup(t, s)
		r, _, err := v.open()
		require.NoError(t, err)
		c := w.cluster(t, s)
		defer c.Close()
		g, err := c.Restore(r.Contents, v.open)
		require.NoError(t, err)
		plan, err := g.Plan(t.Context())
		require.NoError(t, err)
		var destroyed []string
		for _, it := range plan.Items {
			for _, cost := range it.Costs {
				if cost.Kind == converge.CostDestroy {
					destroyed = append(destroyed, cost.Machine)
				}
			}
		}
		assert.Equal(t, []string{"the present state of home", "the own disk of cp1"}, destroyed)
	})
}

// A restore that is cut short anywhere leaves no server that begins a new cluster, cluster:up says so, and repeating it comes to the
// same end.
func TestRestoreOfTalosCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.file(t, cp1+cp2+cp3+w1)
		w.up(t, s)
		w.apply(t, "before")
		v := w.backup(t, s)
		begun := w.net.Begun()
		finished, mine := false, share.Start(t, "restores of Talos cut short")
		for cut := time.Second; !finished; cut += time.Second {
			require.Less(t, cut, 30*time.Minute)
			if !mine.Next() {
				continue
			}
			when := "cut after " + cut.String()
			w.apply(t, "after")
			ctx, cancel := context.WithTimeout(t.Context(), cut)
			finished = w.restore(ctx, t, s, v) == nil
			cancel()
			if !finished {
				w.refusesOrChangesNothing(t, s, when)
			}
			require.NoError(t, w.restore(t.Context(), t, s, v), when)
			w.isRestored(t, when)
			assert.Equal(t, begun, w.net.Begun(), "no second cluster began, %s", when)
		}
		w.up(t, s)
		assert.Empty(t, w.plan(t, s))
	})
}

// refusesOrChangesNothing runs cluster:up after a restore that was cut short.
func (w *world) refusesOrChangesNothing(t *testing.T, s *spec.Spec, when string) {
	t.Helper()
	c := w.cluster(t, s)
	defer c.Close()
	plan, err := c.Up().Plan(t.Context())
	require.NoError(t, err)
	if err := plan.Err(); err != nil {
		assert.ErrorContains(t, err, "run cluster:restore again", when)
	}
	_, _ = c.Up().Run(t.Context(), func(converge.Event) {}) // what it may not do is seen afterwards
}

// A backup with other secrets, or of another distribution, is refused before anything is stopped.
func TestRestoreOfTalosIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.file(t, cp1)
		w.up(t, s)
		v := w.backup(t, s)
		r, _, err := v.open()
		require.NoError(t, err)

		other := newWorld(t)
		other.up(t, other.file(t, cp1))
		foreign, _, err := other.backup(t, other.file(t, cp1)).open()
		require.NoError(t, err)
		for want, m := range map[string]backup.Contents{
			"bring back the home.secrets.age that the cluster had then":                            foreign.Contents,
			"the backup is of a cluster with distribution: kubeadm, and the file says talos":       {Manifest: r.WithProgram("kubeadm", "v1.36.2"), Token: r.Token},
			"the snapshot is of Talos v1.37.0, and the file says v1.36.2: an older Talos cannot r": {Manifest: r.WithProgram("talos", "v1.37.0"), Token: r.Token},
		} {
			c := w.cluster(t, s)
			_, err = c.Restore(m, v.open)
			require.ErrorContains(t, err, want)
			c.Close()
		}
		require.NoError(t, os.Remove(filepath.Join(w.dir, "home.secrets.age")))
		c := w.cluster(t, s)
		defer c.Close()
		_, err = c.Restore(r.Contents, v.open)
		require.ErrorContains(t, err, "home.secrets.age is not there")
		assert.Equal(t, 1, w.net.Machine("10.0.0.11").Boots(), "nothing was stopped")
	})
}

// A snapshot that was saved before an upgrade is restored by its name.
func TestRestoreOfTalosFromASavedSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := cp1 + cp2 + cp3 + w1
		w.up(t, w.file(t, nodes))
		w.apply(t, "before")
		s := w.fileOf(t, "version: v1.13.8, kubernetes: v1.36.2", nodes)
		w.up(t, s)
		w.apply(t, "after")
		saved, err := filepath.Glob(filepath.Join(w.dir, ".homelab", "etcd", "*"))
		require.NoError(t, err)
		require.Len(t, saved, 1)
		c := w.cluster(t, s)
		defer c.Close()
		_, err = c.RestoreSnapshot(t.Context(), "../../cluster.yaml")
		require.ErrorContains(t, err, "is not the name of a snapshot")
		g, err := c.RestoreSnapshot(t.Context(), filepath.Base(saved[0]))
		require.NoError(t, err)
		w.run(t, g)
		w.isRestored(t, "saved")
		assert.Empty(t, w.plan(t, s))
	})
}
