package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/kubesim"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pvesim"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// world is a simulated site: hosts, guests, Kubernetes. Everything is real but the
// hardware and the time: the client of Proxmox's API, SSH, cloud-init's documents,
// K3s' configuration. It lives in a synctest bubble.
type world struct {
	sim    *pvesim.Sim
	kube   *kubesim.Sim
	dir    string // this machine's folder
	token  string
	output strings.Builder // every event, as text
	mu     sync.Mutex
}

func newWorld(t testing.TB, model pvesim.Model) *world {
	t.Helper()
	w := &world{kube: &kubesim.Sim{}, dir: t.TempDir()}
	w.sim = pvesim.New(model, pvesim.Options{Kubernetes: w.kube})
	_, w.token = w.sim.Token()
	t.Cleanup(w.close)
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "id_ed25519"), private, 0o600))
	return w
}

func (w *world) close() {
	w.sim.Close()
	for _, c := range w.kube.Clusters() {
		_ = c.Close()
	}
}

// cluster binds a spec to the world, as a new command would: nothing is remembered
// but the files in dir.
func (w *world) cluster(t testing.TB, spec *cluster.Spec) *cluster.Cluster {
	t.Helper()
	id, token := w.sim.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{
		Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.sim.Client(),
	})
	require.NoError(t, err)
	signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
	require.NoError(t, err)
	c, err := cluster.New(spec, cluster.Backend{
		Proxmox: pve, Signers: []ssh.Signer{signer}, Dial: w.sim.Network().Dial, Dir: w.dir,
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// listen keeps everything that a run says, and prints it when the test is verbose.
func (w *world) listen(t testing.TB) func(converge.Event) {
	start := time.Now()
	return func(e converge.Event) {
		line := fmt.Sprintf("%8s %-9s %-22s %s %s", e.Time.Sub(start).Round(100*time.Millisecond), e.Kind, e.Step, e.Diff, e.Message)
		if e.Err != nil {
			line += " " + e.Err.Error()
		}
		w.mu.Lock()
		w.output.WriteString(line + "\n")
		w.mu.Unlock()
		if testing.Verbose() && e.Kind != converge.Checking {
			t.Log(line)
		}
	}
}

// up runs Up and expects it to work.
func (w *world) up(t testing.TB, spec *cluster.Spec) *converge.Report {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	report, err := c.Up().Run(t.Context(), w.listen(t))
	require.NoError(t, err)
	return report
}

// plan looks and returns what is not as asked, as "step: difference".
func (w *world) plan(t testing.TB, spec *cluster.Spec) []string {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	plan, err := c.Up().Plan(t.Context())
	require.NoError(t, err)
	require.NoError(t, plan.Err())
	var out []string
	for _, it := range plan.Items {
		switch it.Verdict {
		case converge.Clean:
		case converge.Deferred:
			out = append(out, it.Step+": "+it.Because)
		default:
			out = append(out, it.Step+": "+it.Diff.String())
		}
	}
	return out
}

// names lists the VMs on the hosts.
func (w *world) names() []string {
	var out []string
	for _, vm := range w.sim.VMs() {
		out = append(out, vm.Name)
	}
	slices.Sort(out)
	return out
}

// mutations are the requests so far that could change something, as "METHOD path".
func (w *world) mutations() []string {
	var out []string
	for _, r := range w.sim.Requests() {
		if r.Mutating {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

func (w *world) kubeMutations() []string {
	var out []string
	for _, c := range w.kube.Clusters() {
		for _, r := range c.Requests() {
			if r.Mutating() && strings.HasPrefix(r.Agent, "homelab") {
				out = append(out, r.Method+" "+r.Path)
			}
		}
	}
	return out
}

func parse(t testing.TB, yaml string) *cluster.Spec {
	t.Helper()
	spec, err := cluster.Parse("cluster.yaml", []byte(yaml))
	require.NoError(t, err)
	return spec
}

func example(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("../examples/" + name + "/cluster.yaml")
	require.NoError(t, err)
	return string(b)
}

var _ http.RoundTripper // keeps the import until requests are counted

var _ context.Context
