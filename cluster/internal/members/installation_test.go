package members

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/internal/k3snodes"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// A machine that does not answer may have anything; one that this run is about to make has nothing. What
// is foreign is so in whatever words.
func TestWhatAMachineHasThatDoesNotAnswer(t *testing.T) {
	spec, err := clusterfile.Parse("cluster.yaml", []byte("name: x\nnodes: {a: {role: server, external: ops@10.0.0.40}}\n"))
	require.NoError(t, err)
	noWay := errors.New("no way there")
	ns := nodes.New(nodes.Config{
		Spec: spec, Hosts: ssh.NewKnownHosts(filepath.Join(t.TempDir(), "known_hosts")),
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, noWay },
	})
	ms := New(Config{Spec: spec, Nodes: ns, Distribution: k3snodes.New(spec, ns.Root)})
	ctx, a := t.Context(), spec.Nodes[0]

	have, err := ms.Member(ctx, a)
	require.Error(t, err)
	assert.Nil(t, have)
	assert.False(t, IsForeign(err))
	assert.False(t, ms.IsBare(ctx, a))
	ms.Nodes.Observation(a.Name).Absent.Store(true)
	assert.True(t, ms.IsBare(ctx, a))

	step := ms.FirstServerStep(a, func(context.Context) error { t.Error("asked about a machine that was not seen"); return nil })
	_, _, err = step.Check(ctx)
	require.Error(t, err)

	foreign := fmt.Errorf("a: %w", distribution.ErrForeign)
	assert.True(t, IsForeign(foreign))
	assert.True(t, converge.IsPermanent(PermanentIfForeign(foreign)))
	assert.False(t, converge.IsPermanent(PermanentIfForeign(noWay)))
	assert.NoError(t, PermanentIfForeign(nil))
}
