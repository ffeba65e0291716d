package members

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// another is a distribution that is not K3s: it runs no command on any machine. Its kubelets are those of a
// simulated control plane. It says what it was asked to change.
type another struct {
	distribution.Keeper // not asked by this package, nor are
	distribution.Files
	spec  *spec.Spec
	mu    sync.Mutex
	plane *kubesim.Cluster // nil: no server has created the cluster
	is    map[string]distribution.State
	said  []string
}

func (a *another) say(words ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = append(a.said, strings.Join(words, " "))
}

// acts returns what was said since the last call.
func (a *another) acts() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { a.said = nil }()
	return a.said
}

func (a *another) Facts() distribution.Facts {
	return distribution.Facts{Title: "Another", Step: "another", Server: "servd", Agent: "agentd"}
}

func (a *another) Compare(x, y string) int { return strings.Compare(x, y) }

func (a *another) CheckUpgrade(from string) error {
	if from > a.spec.K3s.Version {
		return errors.New("another cannot go back")
	}
	return nil
}

func (a *another) Observe(_ context.Context, n spec.Node) (distribution.Member, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &anotherMember{a, n, a.is[n.Name]}, nil
}

func (a *another) set(name string, change func(*distribution.State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.is[name]
	change(&s)
	a.is[name] = s
}

func (a *another) Claim(_ context.Context, n spec.Node) error {
	a.say("claim", n.Name)
	a.set(n.Name, func(s *distribution.State) { s.Cluster = a.spec.Name })
	return nil
}

func (a *another) Restart(ctx context.Context, n spec.Node, adm distribution.Admission) error {
	a.say("restart", n.Name, adm.ID)
	return a.plane.Join(ctx, a.kubelet(n))
}

func (a *another) Remove(_ context.Context, n spec.Node) error {
	a.say("remove", n.Name)
	a.set(n.Name, func(s *distribution.State) { *s = distribution.State{} })
	a.plane.Leave(n.Name)
	return nil
}

func (a *another) kubelet(n spec.Node) guest.Node {
	return guest.Node{Name: n.Name, Role: string(n.Role), InternalIP: n.Address.Addr(), Version: a.spec.K3s.Version, BootID: a.spec.K3s.Version}
}

func (a *another) Admit(_ context.Context, server string, n spec.Node, _ time.Duration) (distribution.Admission, error) {
	if a.plane == nil {
		return distribution.Admission{}, distribution.Means(errors.New("nothing here"), distribution.ErrNoCluster)
	}
	a.say(server, "admits", n.Name)
	return distribution.Admission{ID: "for-" + n.Name, Value: secret.New("s")}, nil
}

func (a *another) Revoke(_ context.Context, server string, adm distribution.Admission) error {
	a.say(server, "revokes", adm.ID)
	return nil
}

func (a *another) Kubeconfig(context.Context, string) (secret.Value, error) {
	if a.plane == nil {
		return secret.Value{}, distribution.Means(errors.New("nothing here"), distribution.ErrNoCluster)
	}
	return secret.New(string(a.plane.Kubeconfig(distribution.APIURL(a.spec)))), nil
}

func (a *another) Unwell(context.Context, string) string { return "" }

func (a *another) Snapshots(context.Context, string) ([]distribution.Snapshot, error) {
	return nil, nil
}

func (a *another) Save(_ context.Context, server, prefix string) (string, error) {
	a.say("save", prefix, "on", server)
	return prefix + "-1", nil
}

type anotherMember struct {
	*another
	node spec.Node
	have distribution.State
}

func (m *anotherMember) State() distribution.State    { return m.have }
func (m *anotherMember) Refuse(context.Context) error { return nil }
func (m *anotherMember) CheckRanges() error           { return nil }

func (m *anotherMember) Foreign() error {
	return distribution.Means(errors.New(m.node.Name+" is another's"), distribution.ErrForeign)
}

func (m *anotherMember) Diff(distribution.Wish) converge.Diff {
	d := converge.Compare("version", m.have.Version, m.spec.K3s.Version, converge.Restart)
	if !m.have.Running {
		d = append(d, converge.Field{Want: "runs", Effect: converge.Create})
	}
	return d
}

func (m *anotherMember) Install(context.Context) error {
	m.say("install", m.node.Name, m.spec.K3s.Version)
	return nil
}

func (m *anotherMember) Start(ctx context.Context, w distribution.Wish, adm distribution.Admission) error {
	if m.node.Role == spec.Server && !w.Joins {
		m.say("start", m.node.Name, "as the first")
		if m.plane == nil {
			var err error
			if m.plane, err = kubesim.New(ctx, guest.PlaneConfig{TLSSANs: []string{m.spec.APIAddress().String()}, Version: m.spec.K3s.Version}, 1); err != nil {
				return err
			}
		}
	} else {
		m.say("start", m.node.Name, "with", adm.ID)
	}
	return m.runs(ctx)
}

func (m *anotherMember) Upgrade(ctx context.Context, _ distribution.Wish, _ distribution.Admission) error {
	m.say("upgrade", m.node.Name, "to", m.spec.K3s.Version)
	m.plane.Leave(m.node.Name)
	return m.runs(ctx)
}

func (m *anotherMember) runs(ctx context.Context) error {
	m.set(m.node.Name, func(s *distribution.State) {
		s.Role, s.Version, s.API, s.Authority = m.node.Role, m.spec.K3s.Version, distribution.APIURL(m.spec), "ca"
		s.Configured, s.Started, s.Admitted, s.Running = true, true, true, true
		if m.node.Name == m.spec.Servers()[0].Name {
			s.API = ""
		}
	})
	return m.plane.Join(ctx, m.kubelet(m.node))
}

func (m *anotherMember) SaveSnapshot(context.Context, string) (distribution.SavedSnapshot, error) {
	panic("not asked by this package")
}

func (m *anotherMember) FindSnapshot(context.Context, string) (distribution.SavedSnapshot, error) {
	panic("not asked by this package")
}

func (m *anotherMember) Restore(context.Context, distribution.Wish, distribution.SavedSnapshot, secret.Value, io.Reader) error {
	panic("not asked by this package")
}

// The steps ask the distribution, and never a name: with another one than K3s, a cluster of two machines is created,
// changes nothing the second time, restarts a kubelet whose Node is gone, goes to another version, servers
// first, and is removed.
func TestLifeOfAnotherDistribution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := clusterfile.Parse("cluster.yaml", []byte("name: x\nnodes: {a: {role: server, external: ops@10.0.0.40}, b: {role: agent, external: ops@10.0.0.41}}\n"))
		require.NoError(t, err)
		s.K3s.Version, s.Sealed = "v1.36.5", true // no machine has a shell
		d := &another{spec: s, is: map[string]distribution.State{}}
		dir := t.TempDir()
		hosts := ssh.NewKnownHosts(filepath.Join(dir, "known_hosts"))
		ns := nodes.New(nodes.Config{Spec: s, Hosts: hosts, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if d.plane == nil {
				return nil, errors.New("nobody listens")
			}
			return d.plane.Dial(ctx)
		}})
		ms := New(Config{Spec: s, Nodes: ns, Distribution: d, Hosts: hosts, Kubeconfig: filepath.Join(dir, "kubeconfig")})
		server, agent := s.Nodes[0], s.Nodes[1]
		up := func() []string {
			ms := ms.ForRun(ns.ForRun(), d)
			g := ms.Graph()
			first := g.Add(ms.MemberStep(server))
			kubeconfig := g.Add(ms.KubeconfigStep(), g.Add(ms.VIPStep(), first))
			joined := g.Add(ms.MemberStep(agent), kubeconfig)
			g.Add(ms.NodeStep(server), kubeconfig)
			g.Add(ms.NodeStep(agent), joined)
			var texts []string
			_, err := g.Run(t.Context(), func(e converge.Event) { texts = append(texts, e.Step+" "+e.Message) })
			require.NoError(t, err)
			for _, text := range texts {
				assert.NotContains(t, strings.ToLower(text), "k3s")
			}
			return d.acts()
		}

		asked := up()
		assert.Equal(t, []string{"claim a", "install a v1.36.5", "start a as the first", "a admits b", "claim b", "install b v1.36.5", "start b with for-b", "a revokes for-b"}, asked)
		asked = up()
		assert.Empty(t, asked)

		client, err := ms.Kube(t.Context())
		require.NoError(t, err)
		d.plane.Leave("b")
		require.NoError(t, client.DeleteNode(t.Context(), "b"))
		asked = up()
		assert.Equal(t, []string{"a admits b", "restart b for-b", "a revokes for-b"}, asked)

		s.K3s.Version = "v1.36.6"
		asked = up()
		assert.Equal(t, []string{"save homelab-before-v1.36.6 on a", "upgrade a to v1.36.6", "upgrade b to v1.36.6"}, asked)

		s.K3s.Version = "v1.36.1"
		_, err = ms.observe(t.Context(), server)
		require.EqualError(t, err, "another cannot go back")
		assert.True(t, converge.IsPermanent(err))

		d.set("b", func(s *distribution.State) { s.Cluster = "y" })
		_, err = ms.Member(t.Context(), agent)
		assert.True(t, IsForeign(err))
		assert.EqualError(t, err, "b is another's")

		require.NoError(t, d.Remove(t.Context(), agent))
		assert.True(t, ms.IsBare(t.Context(), agent))
		assert.False(t, ms.IsBare(t.Context(), server))
		assert.Equal(t, []string{"remove b"}, d.acts())
		require.NoError(t, client.Close())
		require.NoError(t, d.plane.Close())
	})
}
