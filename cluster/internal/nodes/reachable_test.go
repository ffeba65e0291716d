package nodes_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/remote/ssh"
)

const threeServers = `name: x
k3s: {vip: 10.0.0.40}
nodes:
  a: {role: server, external: ops@10.0.0.41}
  b: {role: server, external: ops@10.0.0.42}
  c: {role: server, external: ops@10.0.0.43}
`

// Servers that all are silent take a second once, and less for a minute; one that answers is enough, and
// is not waited for longer than it takes.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec, err := clusterfile.Parse("cluster.yaml", []byte(threeServers))
		require.NoError(t, err)
		answers := map[string]time.Duration{} // by address; one that is missing never answers
		var refused error
		ns := nodes.New(nodes.Config{
			Spec: spec, Hosts: ssh.NewKnownHosts(filepath.Join(t.TempDir(), "known_hosts")),
			Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
				if refused != nil {
					return nil, refused
				}
				var answer <-chan time.Time
				if after, there := answers[addr]; there {
					answer = time.After(after)
				}
				select {
				case <-answer:
					here, _ := net.Pipe()
					return here, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
		})
		names := []string{"a", "b", "c"}
		ctx := t.Context()
		expect := func(silent bool, takes time.Duration) {
			t.Helper()
			begun := time.Now()
			failed := ns.UnreachableReasons(ctx, names)
			assert.Equal(t, takes, time.Since(begun))
			assert.Equal(t, silent, failed != nil)
			if silent {
				assert.Len(t, failed, len(names))
			}
		}
		expect(true, time.Second)
		assert.EqualError(t, ns.UnreachableReasons(ctx, names)["b"], "cannot reach 10.0.0.42:22: no answer within 200ms")
		answers["10.0.0.42:22"] = 150 * time.Millisecond
		expect(false, 150*time.Millisecond)
		answers["10.0.0.42:22"] = 700 * time.Millisecond // a slow way: it has its time again, and keeps it after a silence
		expect(false, 700*time.Millisecond)
		delete(answers, "10.0.0.42:22")
		expect(true, time.Second)
		answers["10.0.0.43:22"] = 700 * time.Millisecond
		for range 3 {
			expect(true, 200*time.Millisecond)
			time.Sleep(21 * time.Second)
		}
		expect(false, 700*time.Millisecond)
		refused = errors.New("connection refused")
		expect(true, 0)
		refused = nil
		assert.Nil(t, ns.UnreachableReasons(ctx, nil))
		ended, end := context.WithCancel(ctx)
		end()
		assert.ErrorIs(t, ns.UnreachableReasons(ended, names)["a"], context.Canceled)
	})
}
