// Package life_test has lives of whole clusters of Talos machines, on a simulated Proxmox VE.
package life_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/talos/internal/image"
	"github.com/cps-gpu/homelab/talos/internal/sim"
	"github.com/cps-gpu/homelab/talos/internal/talosnodes"
)

// world is a site with Talos machines, whose time is virtual.
type world struct {
	dir  string
	pve  *pvesim.Sim
	kube *kubesim.Sim
	net  *sim.World
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), kube: &kubesim.Sim{}, net: sim.NewWorld()}
	w.net.Kubernetes = w.kube
	w.pve = pvesim.New(pvesim.OneGPU(), pvesim.Options{
		Hypervisor: sim.Hypervisor{World: w.net},
		Internet:   w.net.Image,
	})
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	w.pve.Close()
	for _, c := range w.kube.Clusters() {
		_ = c.Close()
	}
}

// recipient is a public key of age.
const recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

func (w *world) file(t *testing.T, nodes string) *spec.Spec {
	t.Helper()
	return w.fileOf(t, "version: v1.13.7, kubernetes: v1.36.2", nodes)
}

func (w *world) fileOf(t *testing.T, versions, nodes string) *spec.Spec {
	t.Helper()
	text := `
name: home
distribution: talos
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
talos: {vip: 10.0.0.10, recipients: [` + recipient + `], ` + versions + `}
nodes:
` + nodes
	path := filepath.Join(w.dir, "cluster.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	s, err := cluster.Load(path)
	require.NoError(t, err)
	return s
}

// cluster binds a file to the world as a new command does.
func (w *world) cluster(t *testing.T, s *spec.Spec) *cluster.Cluster {
	t.Helper()
	id, token := w.pve.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.pve.Client()})
	require.NoError(t, err)
	keeper := &talosnodes.Keeper{Factory: &image.Factory{
		Get: func(_ context.Context, url string) (io.ReadCloser, error) {
			image, err := w.net.Image(url)
			return io.NopCloser(bytes.NewReader(image)), err
		},
		Post: w.net.Post,
	}}
	c, err := cluster.New(s, cluster.Backend{Proxmox: pve, Dial: w.pve.Network().Dial, Dir: filepath.Join(w.dir, ".homelab"), Token: secret.New(token),
		Distribution: talosnodes.Maker(keeper)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func (w *world) up(t *testing.T, s *spec.Spec) []string {
	t.Helper()
	c := w.cluster(t, s)
	defer c.Close()
	return w.run(t, c.Up())
}

// run returns the steps that changed something.
func (w *world) run(t *testing.T, g *converge.Graph) (changed []string) {
	t.Helper()
	start := time.Now()
	report, err := g.Run(t.Context(), func(e converge.Event) {
		if e.Kind != converge.Checking && testing.Verbose() {
			t.Log(time.Since(start).Round(time.Second), e.Kind, e.Step, e.Diff, e.Message, e.Err)
		}
	})
	require.NoError(t, err)
	for _, r := range report.Steps {
		if r.Kind == converge.Changed {
			changed = append(changed, r.Step)
		}
	}
	return changed
}

func (w *world) plan(t *testing.T, s *spec.Spec) (out []string) {
	t.Helper()
	c := w.cluster(t, s)
	defer c.Close()
	plan, err := c.Up().Plan(t.Context())
	require.NoError(t, err)
	require.NoError(t, plan.Err())
	for _, it := range plan.Items {
		if it.Verdict != converge.Clean {
			out = append(out, it.Step)
		}
	}
	return out
}

func (w *world) down(t *testing.T, s *spec.Spec) {
	t.Helper()
	c := w.cluster(t, s)
	defer c.Close()
	g, err := c.Down(t.Context())
	require.NoError(t, err)
	w.run(t, g)
}

// nodes are those of Kubernetes, by the kubeconfig that up has left, with whether they are ready.
func (w *world) nodes(t *testing.T) map[string]string {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(w.dir, ".homelab", "kubeconfig"))
	require.NoError(t, err)
	client, err := kube.New(kube.Config{Kubeconfig: config, Dial: w.pve.Network().Dial})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	all, err := client.Nodes(t.Context())
	require.NoError(t, err)
	out := map[string]string{}
	for _, n := range all {
		out[n.Name] = n.Role + " " + n.Version
	}
	return out
}

// left are the machines and files of the hosts.
func (w *world) left() (out []string) {
	for _, vm := range w.pve.VMs() {
		out = append(out, vm.Name)
	}
	for _, v := range w.pve.Volumes() {
		out = append(out, v.ID)
	}
	return out
}

const (
	cp1 = "  cp1: {role: server, address: 10.0.0.11}\n"
	cp2 = "  cp2: {role: server, address: 10.0.0.12}\n"
	cp3 = "  cp3: {role: server, address: 10.0.0.13}\n"
	w1  = "  w1: {role: agent, address: 10.0.0.21, labels: {home.example/rack: a}}\n"
	w2  = "  w2: {role: agent, address: 10.0.0.22}\n"
)

// A cluster is made, found as it is, grows, shrinks and goes.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		untouched := w.left()
		s := w.file(t, cp1+w1)
		assert.Contains(t, w.plan(t, s), "vm/cp1")
		assert.NoFileExists(t, filepath.Join(w.dir, "home.secrets.age"), "a plan writes nothing")

		assert.Subset(t, w.up(t, s), []string{"seed/cp1", "vm/cp1", "guest/cp1", "talos/cp1", "talos/w1"})
		assert.Equal(t, map[string]string{"cp1": "server v1.36.2", "w1": "agent v1.36.2"}, w.nodes(t))
		assert.Empty(t, w.plan(t, s))
		assert.Empty(t, w.up(t, s))

		s = w.file(t, cp1+w1+w2)
		changed := w.up(t, s)
		assert.Contains(t, changed, "talos/w2")
		assert.NotContains(t, changed, "talos/w1")
		assert.Len(t, w.nodes(t), 3)

		s = w.file(t, cp1+w2)
		w.up(t, s)
		assert.Equal(t, map[string]string{"cp1": "server v1.36.2", "w2": "agent v1.36.2"}, w.nodes(t))
		assert.Empty(t, w.plan(t, s))

		w.down(t, s)
		assert.Equal(t, untouched, w.left())
	})
}

// Three servers have one etcd, which forgets those that go and takes those that come again.
func TestServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		three := w.file(t, cp1+cp2+cp3+w1)
		w.up(t, three)
		assert.Equal(t, []string{"cp1", "cp2", "cp3"}, w.net.Members())
		assert.Empty(t, w.plan(t, three))

		c := w.cluster(t, three)
		g, err := c.NodeReplace(t.Context(), "cp1", false)
		require.NoError(t, err)
		w.run(t, g)
		assert.Equal(t, []string{"cp1", "cp2", "cp3"}, w.net.Members(), "the old cp1 is forgotten, and the new one has joined")
		assert.Len(t, w.net.Begun(), 1)
		assert.Empty(t, w.plan(t, three))

		w.up(t, w.file(t, cp1+w1))
		assert.Equal(t, []string{"cp1"}, w.net.Members())
		assert.Equal(t, map[string]string{"cp1": "server v1.36.2", "w1": "agent v1.36.2"}, w.nodes(t))
	})
}

// A hub has what K3s would bring from other parts: volumes from NFS, addresses from MetalLB.
func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		charts, err := filepath.Abs("../../../sim/lab/charts")
		require.NoError(t, err)
		s := w.file(t, cp1+w1+`
storage: {nfs: {server: 10.0.0.5, export: /export/k8s}}
loadBalancer: {kind: metallb, addresses: [10.0.0.200-10.0.0.219]}
tls: self-signed
hub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}
charts: {offline: true, folder: `+charts+`}
`)
		assert.Subset(t, w.up(t, s), []string{"objects/metallb", "chart/jupyterhub"})
		assert.Contains(t, w.kube.Clusters()[0].Names("deployments.apps"), "jupyterhub/hub")
		assert.Empty(t, w.plan(t, s))
		assert.Empty(t, w.up(t, s))
		w.down(t, s)
	})
}

// A cluster goes to other versions of Talos and of Kubernetes, one machine after the other, and etcd is saved before. Nothing goes back.
func TestOtherVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := cp1 + cp2 + cp3 + w1
		w.up(t, w.file(t, nodes))
		steps := []string{"talos/cp1", "talos/cp2", "talos/cp3", "talos/w1"}

		s := w.fileOf(t, "version: v1.13.8, kubernetes: v1.36.2", nodes)
		assert.Subset(t, w.plan(t, s), steps)
		assert.Subset(t, w.up(t, s), steps)
		assert.Empty(t, w.plan(t, s))
		for _, address := range []string{"10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.21"} {
			assert.Equal(t, 2, w.net.Machine(address).Boots(), address)
		}
		assert.Equal(t, []string{"cp1", "cp2", "cp3"}, w.net.Members())
		assert.Len(t, w.net.Begun(), 1)
		saved, err := os.ReadDir(filepath.Join(w.dir, ".homelab", "etcd"))
		require.NoError(t, err)
		require.Len(t, saved, 1, "etcd is saved once, before the first server")

		s = w.fileOf(t, "version: v1.13.8, kubernetes: v1.36.4", nodes)
		c := w.cluster(t, s)
		plan, err := c.Up().Plan(t.Context())
		require.NoError(t, err)
		c.Close()
		for _, it := range plan.Items {
			for _, cost := range it.Costs {
				assert.Equal(t, "Kubernetes v1.36.2 → v1.36.4", cost.Reason, it.Step)
			}
		}
		assert.Subset(t, w.up(t, s), steps)
		assert.Equal(t, map[string]string{"cp1": "server v1.36.4", "cp2": "server v1.36.4", "cp3": "server v1.36.4", "w1": "agent v1.36.4"}, w.nodes(t))
		assert.Empty(t, w.plan(t, s))
		for _, address := range []string{"10.0.0.11", "10.0.0.12", "10.0.0.13"} {
			assert.Contains(t, w.net.Machine(address).Config(), "image: registry.k8s.io/kube-apiserver:v1.36.4")
			assert.Equal(t, 2, w.net.Machine(address).Boots(), "Kubernetes needs no restart of the machine")
		}
	})
}

// An upgrade that is cut short at any request goes on with the next run, and no cluster begins a second time.
func TestUpgradeThatIsCutShort(t *testing.T) {
	const moments = 12
	mine := share.Start(t, "moments of an upgrade")
	for i := range moments {
		if mine.Next() {
			synctest.Test(t, func(t *testing.T) { cutShort(t, i, moments) })
		}
	}
}

// cutShort ends an upgrade at its ith of n moments, which are spread over as many requests as a whole one has.
func cutShort(t *testing.T, i, n int) {
	const requests = 60 // to the machines, that the upgrade has at least
	w := newWorld(t)
	w.up(t, w.file(t, cp1+w1))
	s := w.fileOf(t, "version: v1.13.8, kubernetes: v1.36.4", cp1+w1)
	ctx, kill := context.WithCancel(t.Context())
	var left atomic.Int64
	left.Store(int64(1 + i*requests/n))
	w.net.Step = func(string) error {
		if left.Add(-1) <= 0 {
			kill()
			return errors.New("killed")
		}
		return nil
	}
	c := w.cluster(t, s)
	_, err := c.Up().Run(ctx, func(converge.Event) {})
	require.Error(t, err)
	require.LessOrEqual(t, left.Load(), int64(0), "the upgrade has fewer requests")
	c.Close()
	w.net.Step = nil

	c = w.cluster(t, s)
	if _, err := c.Up().Run(t.Context(), func(converge.Event) {}); err != nil { // it was away when it was looked at
		require.ErrorContains(t, err, "answers again")
	}
	c.Close()
	w.up(t, s)
	assert.Equal(t, map[string]string{"cp1": "server v1.36.4", "w1": "agent v1.36.4"}, w.nodes(t))
	assert.Empty(t, w.plan(t, s))
	assert.Len(t, w.net.Begun(), 1)
	for _, address := range []string{"10.0.0.11", "10.0.0.21"} {
		assert.Equal(t, 2, w.net.Machine(address).Boots(), address)
	}
}

// What Talos or Kubernetes cannot do is refused before anything is changed.
func TestVersionsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.up(t, w.file(t, cp1))
		for versions, want := range map[string]string{
			"version: v1.13.7, kubernetes: v1.35.9": "Kubernetes cannot be downgraded",
		} {
			applied := w.net.Machine("10.0.0.11").Applied()
			c := w.cluster(t, w.fileOf(t, versions, cp1))
			_, err := c.Up().Run(t.Context(), func(converge.Event) {})
			require.ErrorContains(t, err, want)
			c.Close()
			assert.Equal(t, applied, w.net.Machine("10.0.0.11").Applied())
		}
	})
}

// The only server takes what changes in the file: there is nobody else to ask.
func TestTheOnlyServerChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.up(t, w.file(t, cp1))
		s := w.file(t, strings.Replace(cp1, "}", ", labels: {home.example/rack: a}}", 1))
		assert.Contains(t, w.up(t, s), "talos/cp1")
		assert.Empty(t, w.plan(t, s))
	})
}
