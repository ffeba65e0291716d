package cluster_test

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// world is a simulated site: hosts, guests, Kubernetes. Everything is real but the
// hardware and the time: the client of Proxmox's API, SSH, cloud-init's documents,
// K3s' configuration. It lives in a synctest bubble.
type world struct {
	sim    *pvesim.Sim
	kube   *kubesim.Sim
	dir    string // this machine's folder
	token  string
	tap    func(http.RoundTripper) http.RoundTripper // around every way out, nil for none
	output strings.Builder                           // every event, as text
	// kubeTap is around the way to Kubernetes alone, in place of tap.
	kubeTap func(http.RoundTripper) http.RoundTripper
	// dial is the way to the machines, nil for the network's own.
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	gitDial func(ctx context.Context, network, addr string) (net.Conn, error)
	knownAs map[string]string      // of nodes in Kubernetes that have not those of their VMs
	keys    func(*cluster.Backend) // other keys to log in with; nil: the kept one
	edge    *guest.Machine         // an external machine
	toolkit map[string]string      // digests of NVIDIA's packages; nil: the real ones
	// evicting is called before each eviction, if kubeTap is tapDrain.
	evicting func()
	mu       sync.Mutex
}

// loginKey is the same in every world, and so are the seeds that carry its public
// half, and their names.
var loginKey = sync.OnceValues(func() ([]byte, error) {
	block, err := xssh.MarshalPrivateKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), "homelab")
	return pem.EncodeToMemory(block), err
})

func newWorld(t testing.TB, model pvesim.Model) *world {
	t.Helper()
	return newWorldWith(t, model, pvesim.Options{})
}

// newWorldWith is newWorld with some options of one's own.
func newWorldWith(t testing.TB, model pvesim.Model, o pvesim.Options) *world {
	t.Helper()
	w := &world{kube: &kubesim.Sim{}, dir: t.TempDir()}
	o.Kubernetes = w.kube
	w.sim = pvesim.New(model, o)
	_, w.token = w.sim.Token()
	t.Cleanup(w.close)
	private, err := loginKey()
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
func (w *world) cluster(t testing.TB, spec *spec.Spec) *cluster.Cluster {
	t.Helper()
	return w.clusterOver(t, spec, w.sim.Client().Transport)
}

// clusterOver is cluster with a way to Proxmox of one's own.
func (w *world) clusterOver(t testing.TB, spec *spec.Spec, way http.RoundTripper) *cluster.Cluster {
	t.Helper()
	if w.tap != nil {
		way = w.tap(way)
	}
	id, token := w.sim.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{
		Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: way},
	})
	require.NoError(t, err)
	wrap := w.kubeTap
	if wrap == nil {
		wrap = w.tap
	}
	b := cluster.Backend{
		Proxmox: pve, Dial: w.sim.Network().Dial, Dir: w.dir, KubeWrap: wrap, GitDial: w.gitDial, ToolkitDigests: w.toolkit,
	}
	if w.dial != nil {
		b.Dial = w.dial
	}
	if w.keys != nil {
		w.keys(&b)
	} else {
		signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
		require.NoError(t, err)
		b.Signers = []ssh.Signer{signer}
	}
	c, err := cluster.New(spec, b)
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
func (w *world) up(t testing.TB, spec *spec.Spec) *converge.Report {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	up := c.Up()
	check := w.announced(t, up)
	report, err := up.Run(t.Context(), w.listen(t))
	require.NoError(t, err)
	check()
	w.placesNodes(t, spec)
	return report
}

// plan looks and returns what is not as asked, as "step: difference".
func (w *world) plan(t testing.TB, spec *spec.Spec) []string {
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
			out = append(out, it.Step+": "+it.Reason)
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

func parse(t testing.TB, yaml string) *spec.Spec {
	t.Helper()
	spec, err := cluster.Parse("cluster.yaml", []byte(yaml))
	require.NoError(t, err)
	return spec
}

// example is an example's cluster, without what runs on it: most tests are about
// machines, and would wait for charts that they do not look at.
func example(t testing.TB, name string) string {
	t.Helper()
	return string(examples.WithoutPlatform([]byte(wholeExample(t, name))))
}

func wholeExample(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("../examples/" + name + "/cluster.yaml")
	require.NoError(t, err)
	return string(b)
}

// lab turns an example for a real host into one for the simulated one, whose client
// is made by the test.
func lab(yaml string) string {
	var out []string
	for line := range strings.Lines(yaml) {
		switch key, _, _ := strings.Cut(strings.TrimSpace(line), ":"); key {
		case "token", "secret", "fingerprint":
		case "endpoint":
			out = append(out, "  endpoint: lab\n")
		default:
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// replace changes a file's text, and sees that there is such a text.
func replace(t testing.TB, yaml, old, new string) string {
	t.Helper()
	require.Contains(t, yaml, old)
	return strings.ReplaceAll(yaml, old, new)
}

// guests are the machines that run, by name.
func (w *world) guests() map[string]*guest.Machine {
	out := map[string]*guest.Machine{}
	for _, vm := range w.sim.VMs() {
		if vm.Guest != nil {
			out[vm.Name] = vm.Guest
		}
	}
	return out
}

// vm returns the VM of that name.
func (w *world) vm(t testing.TB, name string) pvesim.VMState {
	t.Helper()
	for _, vm := range w.sim.VMs() {
		if vm.Name == name {
			return vm
		}
	}
	require.FailNow(t, "no VM", name)
	return pvesim.VMState{}
}

// moment is what had been asked of the world at some time.
type moment struct {
	w             *world
	proxmox, kube int
	machines      map[string]*guest.Machine
	guests        map[string]int
}

func (w *world) now() moment {
	m := moment{w: w, proxmox: len(w.mutations()), kube: len(w.kubeMutations()), machines: w.guests(), guests: map[string]int{}}
	for name, g := range m.machines {
		m.guests[name] = len(g.Mutations())
	}
	return m
}

// changes is what was asked of the world since a moment, by whom it was asked.
type changes struct {
	Proxmox    []string // METHOD path
	Guests     []string // name: what; of machines that run since then
	Restarted  []string // machines that were started since
	Kubernetes []string // METHOD path
}

func (m moment) changes() changes {
	c := changes{
		Proxmox:    append([]string(nil), m.w.mutations()[m.proxmox:]...), // nil when there is none
		Kubernetes: append([]string(nil), m.w.kubeMutations()[m.kube:]...),
	}
	guests := m.w.guests()
	for _, name := range slices.Sorted(maps.Keys(guests)) {
		if guests[name] != m.machines[name] {
			c.Restarted = append(c.Restarted, name)
			continue
		}
		for _, what := range guests[name].Mutations()[m.guests[name]:] {
			c.Guests = append(c.Guests, name+": "+what)
		}
	}
	return c
}

// api is the way to Kubernetes of somebody with the kubeconfig that up has left.
func (w *world) api(t testing.TB) *kube.Client {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(w.dir, "kubeconfig"))
	require.NoError(t, err)
	client, err := kube.New(kube.Config{Kubeconfig: config, Dial: w.sim.Network().Dial})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// kubeNodes are Kubernetes' nodes, by name.
func (w *world) nodes(t testing.TB) map[string]kube.Node {
	t.Helper()
	client := w.api(t)
	defer func() { _ = client.Close() }()
	all, err := client.Nodes(t.Context())
	require.NoError(t, err)
	out := map[string]kube.Node{}
	for _, n := range all {
		out[n.Name] = n
	}
	return out
}

// unmarked is the end of a machine's mark: VMID and UUID.
var unmarked = regexp.MustCompile(`_[0-9]+_[0-9a-f]{8}\b`)

// inventory is all that there is on the hosts: machines, volumes, mappings. VMIDs
// are written as the names of their machines, and what Proxmox makes up for each
// machine is left out, so that two worlds can be compared.
func (w *world) inventory() []string {
	names := map[int]string{0: "-"}
	var out []string
	for _, vm := range w.sim.VMs() {
		names[vm.ID] = vm.Name
	}
	unnumbered := func(s string) string {
		for id, name := range names {
			s = strings.ReplaceAll(s, fmt.Sprintf("-%d-", id), "-<"+name+">-")
		}
		return s
	}
	for _, vm := range w.sim.VMs() {
		for _, made := range []string{"meta", "smbios1", "vmgenid", "digest"} {
			delete(vm.Config, made)
			delete(vm.Pending, made)
		}
		for _, key := range []string{"tags", "description"} {
			if text, found := vm.Config[key]; found {
				vm.Config[key] = unmarked.ReplaceAllStringFunc(text, func(mark string) string {
					id, _ := strconv.Atoi(strings.Split(mark, "_")[1])
					return "_" + names[id]
				})
			}
		}
		for _, k := range slices.Sorted(maps.Keys(vm.Config)) {
			if k == "net0" && vm.Template {
				continue // Proxmox chooses its MAC address
			}
			out = append(out, fmt.Sprintf("vm %s %s: %s", vm.Name, k, unnumbered(vm.Config[k])))
		}
		out = append(out, fmt.Sprintf("vm %s on %s: running %t, template %t, PCI %v, pending %v", vm.Name, vm.Node, vm.Running, vm.Template, vm.PCI, vm.Pending))
	}
	for _, v := range w.sim.Volumes() {
		out = append(out, fmt.Sprintf("volume %s on %s: %s of %d bytes, of %s, from %s", unnumbered(v.ID), v.Node, v.Content, v.Size, names[v.Owner], unnumbered(v.Base)))
	}
	for _, m := range w.sim.Mappings() {
		out = append(out, fmt.Sprintf("mapping %s (%s): %v", m.ID, m.Description, m.Devices))
	}
	slices.Sort(out)
	return out
}
