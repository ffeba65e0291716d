package cluster_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// asAnother has the commands to come be those of somebody else: another folder, another
// token, and a copy of the file.
func (w *world) asAnother(t testing.TB) {
	t.Helper()
	w.dir, w.keys = filepath.Join(t.TempDir(), "another", "machine"), tokenKey(t, "the secret of somebody else's token")
}

// costsOf are what a plan of up says that it costs.
func (w *world) costsOf(t testing.TB, spec *spec.Spec) []converge.Cost {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	plan, err := c.Up().Plan(t.Context())
	require.NoError(t, err)
	require.NoError(t, plan.Err())
	return (&converge.Agreement{}).NotAgreed(plan)
}

// agreeing brings the world to what the file says, as far as somebody has agreed to it.
func (w *world) agreeing(t testing.TB, spec *spec.Spec, a *converge.Agreement) error {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	up := c.Up()
	up.Approve = a.Approve
	_, err := up.Run(t.Context(), w.listen(t))
	return err
}

// Whoever has a file with the name of somebody else's cluster, and a token for the same
// Proxmox, is let into none of its machines before they have agreed to just that.
func TestNobodyIsLetInUnasked(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, duo)
		w.up(t, spec)
		cp1, wk1, before := w.authorized(t, "cp1"), w.authorized(t, "wk1"), w.now()
		home := w.dir
		w.asAnother(t)
		costs := w.costsOf(t, spec)
		var said []string
		for _, c := range costs {
			said = append(said, c.String()+": "+c.Reason)
		}
		const why = ": no server of the cluster knows a key of this run: the cluster was created from another folder, with another token or by another person"
		assert.Equal(t, []string{"a login is added to cp1" + why, "a login is added to wk1" + why}, said)

		err := w.agreeing(t, spec, &converge.Agreement{Restarts: true, Destroy: []string{"cp1", "wk1", "duo"}})
		var no *converge.RefusedError
		require.ErrorAs(t, err, &no, "somebody is let in unasked")
		assert.Equal(t, "login", no.Step)
		assert.Equal(t, changes{}, before.changes())
		assert.Equal(t, [][]string{cp1, wk1}, [][]string{w.authorized(t, "cp1"), w.authorized(t, "wk1")})
		assert.NoDirExists(t, w.dir)

		agreed := &converge.Agreement{}
		agreed.Agree(costs[0])
		require.ErrorAs(t, w.agreeing(t, spec, agreed), &no, "to one of them")
		assert.Equal(t, costs[1:], no.Costs)
		assert.Equal(t, changes{}, before.changes())
		require.NoError(t, w.agreeing(t, spec, &converge.Agreement{Logins: true}))
		assert.Equal(t, cp1, w.authorized(t, "cp1")[:1], "the others' keys stay")
		assert.Len(t, w.authorized(t, "wk1"), 2)
		assert.Empty(t, w.plan(t, spec))

		// From then on they are one of those whose cluster it is, also in machines that another of them makes.
		other, keys := w.dir, w.keys
		w.dir, w.keys = home, nil
		require.NoError(t, w.verb(t, spec, replacements(t.Context(), "wk1", true)))
		time.Sleep(time.Minute)
		w.dir, w.keys = other, keys
		assert.NotEmpty(t, onlyLogin(w.plan(t, spec)))
		assert.Empty(t, w.costsOf(t, spec), "a login on a server is one on every node, by way of Kubernetes")
		require.NoError(t, w.agreeing(t, spec, &converge.Agreement{}))
		assert.Empty(t, w.plan(t, spec))
	})
}

// That somebody has a machine of their own in the cluster, made while the others were off,
// is no way into those.
func TestAMachineOfOnesOwnIsNoWayIn(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, duo)
		w.up(t, spec)
		w.byHand(t, spec, "cp1", "stop")
		w.byHand(t, spec, "wk1", "stop")
		w.asAnother(t)
		more := parse(t, duo+"  own: {count: 1, addresses: [10.0.0.31]}\n")
		require.Error(t, w.agreeing(t, more, &converge.Agreement{}))
		require.Contains(t, w.names(), "own1")
		keys := [][]string{w.authorized(t, "cp1"), w.authorized(t, "wk1")}
		time.Sleep(time.Hour)
		assert.Len(t, w.costsOf(t, more), 2)
		require.ErrorAs(t, w.agreeing(t, more, &converge.Agreement{}), new(*converge.RefusedError))
		assert.Equal(t, keys, [][]string{w.authorized(t, "cp1"), w.authorized(t, "wk1")})
	})
}

// Nor is one server among others: whose cluster it is, those say that let nobody in.
func TestOneServerIsNoWayIntoTheOthers(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, `
name: three
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1, vip: 10.0.0.100}
defaults: {storage: vmdata, role: server, cores: 4, memory: 8GiB}
nodes:
  cp1: {address: 10.0.0.11}
  cp2: {address: 10.0.0.12}
  cp3: {address: 10.0.0.13}
`)
		w.up(t, spec)
		w.asAnother(t)
		require.NoError(t, w.agreeing(t, spec, &converge.Agreement{Logins: true}))
		assert.Empty(t, w.costsOf(t, spec))
		for _, name := range []string{"cp1", "cp2"} {
			require.NoError(t, w.guests()[name].AgentWriteFile("/home/ubuntu/.ssh/authorized_keys", []byte(w.authorized(t, name)[0]+"\n")))
		}
		var asked []string
		for _, c := range w.costsOf(t, spec) {
			asked = append(asked, c.Machine)
		}
		assert.Equal(t, []string{"cp1", "cp2"}, asked)
	})
}

// A token that was let in is not asked about again when its secret is made anew: Proxmox
// vouches that it is the same. Another token is.
func TestATokenIsLetInOnce(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		of := func(id string) *spec.Spec {
			return parse(t, replace(t, duo, "{endpoint: lab}", "{endpoint: 'https://pve1:8006', host: pve1, token: '"+id+"', secret: 'env:TOKEN'}\ndefaults: {storage: vmdata}"))
		}
		w.keys = tokenKey(t, "the first secret")
		w.up(t, of("teacher@pve!one"))
		w.keys = named(t) // a colleague, who makes a node anew, which knows no token
		w.up(t, of("teacher@pve!one"))
		require.NoError(t, w.verb(t, of("teacher@pve!one"), replacements(t.Context(), "wk1", true)))
		time.Sleep(time.Minute)
		w.keys = tokenKey(t, "the second secret")
		assert.Empty(t, w.costsOf(t, of("teacher@pve!one")))
		assert.Len(t, w.costsOf(t, of("student3@pve!one")), 2)
		require.NoError(t, w.agreeing(t, of("teacher@pve!one"), &converge.Agreement{}))
		assert.Empty(t, w.plan(t, of("teacher@pve!one")))
	})
}

// What only looks, and every verb beside up, adds no login: where there is none it says so,
// and what would add one.
func TestVerbsLetNobodyIn(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, duo)
		w.up(t, spec)
		w.asAnother(t)
		before := w.now()
		planned := func(g *converge.Graph, err error) error { // as the commands do, before anything else
			require.NoError(t, err)
			plan, err := g.Plan(t.Context())
			require.NoError(t, err)
			if err := plan.Err(); err != nil {
				return err
			}
			_, err = g.Run(t.Context(), func(converge.Event) {})
			return err
		}
		for what, do := range map[string]func(context.Context, *cluster.Cluster) error{
			"cluster:plan": func(ctx context.Context, c *cluster.Cluster) error {
				_, err := c.Up().Plan(ctx)
				return err
			},
			"gpu:verify": func(ctx context.Context, c *cluster.Cluster) error {
				g, _ := c.GPUVerify(cluster.VerifyQuick, 0)
				_, err := g.Run(ctx, func(converge.Event) {})
				return err
			},
			"cluster:kubeconfig": func(ctx context.Context, c *cluster.Cluster) error { return c.WriteKubeconfig(ctx) },
			"node:drain":         func(_ context.Context, c *cluster.Cluster) error { return planned(c.NodeDrain("wk1")) },
			"node:uncordon":      func(_ context.Context, c *cluster.Cluster) error { return planned(c.NodeUncordon("wk1")) },
			"node:cycle":         func(ctx context.Context, c *cluster.Cluster) error { return planned(c.NodeCycle(ctx, "wk1", false)) },
			"node:replace":       func(ctx context.Context, c *cluster.Cluster) error { return planned(c.NodeReplace(ctx, "wk1", false)) },
		} {
			c := w.cluster(t, spec)
			err := do(t.Context(), c)
			c.Close()
			if what == "cluster:plan" {
				require.NoError(t, err, "it shows the step")
			} else {
				require.ErrorContains(t, err, "does not let ubuntu in", what)
				assert.ErrorContains(t, err, "homelab cluster:up asks first and adds a login", what)
			}
			assert.Equal(t, changes{}, before.changes(), what)
			assert.NoDirExists(t, w.dir, what)
		}
	})
}
