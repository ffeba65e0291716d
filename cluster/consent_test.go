package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

var update = flag.Bool("update", false, "rewrite golden files")

// fatal are requests after which something of somebody's is away, or gone.
var fatal = regexp.MustCompile(`^POST /nodes/[^/]+/qemu/(\d+)/status/(?:stop|shutdown|reboot|reset|suspend)$|^DELETE /nodes/[^/]+/qemu/(\d+)$`)

// ends are requests by which work in Kubernetes ends, or its data goes.
var ends = regexp.MustCompile(`/eviction$|^DELETE /api/v1/(?:namespaces/[^/]+/)?(?:pods|nodes|persistentvolumeclaims|persistentvolumes|namespaces)/[^/]+$`)

// announced keeps what the steps of a run say that they cost, and agrees to it. The check
// that it returns is that of machines that were there before, none was stopped without
// having been named, and none destroyed; and that nobody's work ended without a word.
func (w *world) announced(t testing.TB, g *converge.Graph) (check func()) {
	var mu sync.Mutex
	said := map[string]converge.CostKind{}
	g.Approve = func(_ context.Context, it converge.Item) error {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range it.Costs {
			if c.Kind != converge.CostLogin && said[c.Machine] != converge.CostDestroy {
				said[c.Machine] = c.Kind
			}
		}
		return nil
	}
	names, there := map[string]string{}, map[string]bool{}
	for _, vm := range w.sim.VMs() {
		if !strings.Contains(vm.Name, "-template-") && vm.Config["lock"] == "" {
			names[fmt.Sprint(vm.ID)], there[vm.Name] = vm.Name, true
		}
	}
	before := w.now()
	return func() {
		t.Helper()
		did := before.changes()
		for _, request := range did.Proxmox {
			m := fatal.FindStringSubmatch(request)
			switch {
			case m == nil:
			case m[1] != "" && names[m[1]] != "":
				assert.Contains(t, said, names[m[1]], "%s was stopped, and no step said that it would be", names[m[1]])
			case names[m[2]] != "":
				assert.Equal(t, converge.CostDestroy, said[names[m[2]]], "%s was destroyed, and no step said that it would be", names[m[2]])
			}
		}
		harm := func(request string) bool {
			node, isNode := strings.CutPrefix(request, "DELETE /api/v1/nodes/") // that a machine which is gone has left
			return ends.MatchString(request) && !strings.Contains(request, "/namespaces/homelab-probe/") && (!isNode || there[node])
		}
		if i := slices.IndexFunc(did.Kubernetes, harm); i >= 0 {
			assert.NotEmpty(t, said, "%s, and no step said a word", did.Kubernetes[i])
		}
	}
}

// consenting is a cluster with something of every kind that a file may change.
const consenting = `
name: ask
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1, tlsSANs: [k3s.lab.example]}
nvidia: {driver: {flavour: open}}
defaults: {storage: vmdata}
nodes:
  cp1: {role: server, address: 10.0.0.11, cores: 4, memory: 8GiB}
  gpu1: {address: 10.0.0.21, cores: 8, memory: 32GiB, gpus: {count: 2, sharing: {strategy: mps, replicas: 2}}}
  gpu2: {address: 10.0.0.22, cores: 8, memory: 32GiB, gpus: 1}
  wk1: {address: 10.0.0.31, cores: 4, memory: 8GiB, disks: {data: {size: 50GiB, mount: /data, role: data}}}
  wk2: {address: 10.0.0.32, cores: 4, memory: 8GiB}
  edge: {external: ops@10.0.0.40}
storage:
  default: nfs
  nfs: {export: /export/k3s, shares: {sets: /export/sets}, vm: {name: files, address: 10.0.0.30, size: 100GiB, allow: [10.0.0.0/24, 192.168.7.0/24], memory: 2GiB}}
tls: self-signed
monitoring: {size: 10GiB}
hub:
  hostname: hub.lab.example
  auth: dummy
  profiles:
    small: {cpu: 1, memory: 2GiB}
    gpu: {cpu: 2, memory: 8GiB, gpus: 1}
`

// people work in it: notebooks, a job with a GPU, a volume on a node's own disk.
const people = `
{apiVersion: v1, kind: Pod, metadata: {name: jupyter-teacher, namespace: jupyterhub, labels: {component: singleuser-server}, annotations: {hub.jupyter.org/username: teacher}},
  spec: {nodeName: gpu1, containers: [{name: notebook, image: notebook, resources: {limits: {nvidia.com/gpu: 1}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: jupyter-student3, namespace: jupyterhub, labels: {component: singleuser-server}, annotations: {hub.jupyter.org/username: student3}},
  spec: {nodeName: wk2, containers: [{name: notebook, image: notebook}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: train, namespace: default},
  spec: {nodeName: gpu2, containers: [{name: train, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-student3}, spec: {capacity: {storage: 10Gi}, accessModes: [ReadWriteOnce], storageClassName: local-path,
  hostPath: {path: /data}, persistentVolumeReclaimPolicy: Delete, claimRef: {namespace: jupyterhub, name: claim-student3},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [wk2]}]}]}}}}
`

// kindOfChange is a row of docs/consent.md, and an example of it.
type kindOfChange struct {
	what     string
	old, new string                                                                 // of the file's text
	stays    bool                                                                   // there is no way back
	verb     func(ctx context.Context, c *cluster.Cluster) (*converge.Graph, error) // nil: cluster:up
	another  bool                                                                   // by somebody whom the machines do not know
}

func kindsOfChange() []kindOfChange {
	type cl = *cluster.Cluster
	return []kindOfChange{
		{what: "a new machine, or one that is missing", old: "  wk2:", new: "  wk3: {address: 10.0.0.33, cores: 4, memory: 8GiB}\n  wk2:"},
		{what: "a machine that left the file: drained, destroyed with its disks", old: "  wk2: {address: 10.0.0.32, cores: 4, memory: 8GiB}\n"},
		{what: "a VM's setting that counts at once (boot with the host, …)", old: "wk2: {", new: "wk2: {onboot: false, "},
		{what: "a VM's setting that counts from its next start (memory, cores, …)", old: "wk2: {address: 10.0.0.32, cores: 4, memory: 8GiB", new: "wk2: {address: 10.0.0.32, cores: 4, memory: 6GiB"},
		{what: "the same setting of the NFS server's VM", old: "memory: 2GiB}}\ntls", new: "memory: 4GiB}}\ntls"},
		{what: "another data disk", old: "wk2: {", new: "wk2: {disks: {scratch: {size: 20GiB, mount: /scratch}}, "},
		{what: "a data disk that left the file: detached, its volume kept", old: ", disks: {data: {size: 50GiB, mount: /data, role: data}}"},
		{what: "a larger disk", old: "size: 50GiB", new: "size: 60GiB", stays: true},
		{what: "more GPUs for a node", old: "memory: 32GiB, gpus: 1", new: "memory: 32GiB, gpus: 2"},
		{what: "fewer GPUs for a node", old: "count: 2, sharing", new: "count: 1, sharing"},
		{what: "GPUs shared in another way, while programs compute through MPS", old: "strategy: mps, replicas: 2", new: "strategy: time-slicing, replicas: 2"},
		{what: "GPUs divided in another way, or whole again (MIG)", old: "strategy: mps, replicas: 2", new: "strategy: mig, layouts: [{profiles: {3g.20gb: 2}}]"},
		{what: "another NVIDIA driver", old: "flavour: open", new: "flavour: proprietary"},
		{what: "another version of K3s", old: "v1.36.5+k3s1", new: "v1.36.6+k3s1"},
		{what: "other settings of K3s: it restarts, node by node, and pods keep running", old: "k3s.lab.example", new: "kube.lab.example"},
		{what: "labels, and taints that keep pods away", old: "wk2: {", new: "wk2: {labels: {example.com/site: roof}, taints: ['example.com/quiet=yes:NoSchedule'], "},
		{what: "a taint that evicts pods (`NoExecute`)", old: "wk2: {", new: "wk2: {taints: ['example.com/quiet=yes:NoExecute'], "},
		{what: "a new or changed part of the platform: Kubernetes rolls it over", old: "cpu: 1, memory: 2GiB", new: "cpu: 1, memory: 3GiB"},
		{what: "a part of the platform that left the file", old: "monitoring: {size: 10GiB}\n"},
		{what: "a network that may no longer mount the NFS server's folders (`allow`)", old: ", 192.168.7.0/24", new: ""},
		{what: "a share of the NFS server that left the file: its data stays there", old: ", shares: {sets: /export/sets}", new: ""},
		{what: "a login on machines that know none of this run's keys (another token, another person)", old: "  edge: {external: ops@10.0.0.40}\n", another: true},
		{what: "`node:drain` of a node with work on it", verb: func(_ context.Context, c cl) (*converge.Graph, error) { return c.NodeDrain("wk2") }},
		{what: "`node:drain` of an idle node", verb: func(_ context.Context, c cl) (*converge.Graph, error) { return c.NodeDrain("wk1") }},
		{what: "`node:cycle`", verb: func(ctx context.Context, c cl) (*converge.Graph, error) { return c.NodeCycle(ctx, "wk2", false) }},
		{what: "`node:replace`", verb: func(ctx context.Context, c cl) (*converge.Graph, error) { return c.NodeReplace(ctx, "wk2", true) }},
		{what: "`node:replace` of an external machine", verb: func(ctx context.Context, c cl) (*converge.Graph, error) { return c.NodeReplace(ctx, "edge", true) }},
		{what: "`node:remove`", verb: func(ctx context.Context, c cl) (*converge.Graph, error) { return c.NodeRemove(ctx, "edge", true) }},
		{what: "`cluster:down`", verb: func(ctx context.Context, c cl) (*converge.Graph, error) { return c.Down(ctx) }},
	}
}

func (k kindOfChange) graph(t testing.TB, w *world, text string) *converge.Graph {
	t.Helper()
	if k.another {
		w.keys = tokenKey(t, "the secret of somebody else's token")
		defer func() { w.keys = nil }()
	}
	if k.verb == nil {
		return w.cluster(t, parse(t, replace(t, text, k.old, k.new))).Up()
	}
	g, err := k.verb(t.Context(), w.cluster(t, parse(t, text)))
	require.NoError(t, err)
	return g
}

// answer says how a change is agreed to, by what its steps say that it costs.
func (k kindOfChange) answer(costs []converge.Cost) string {
	asked, otherwise := "goes on", "goes on"
	for _, c := range costs {
		switch {
		case c.Kind == converge.CostDestroy && k.verb == nil:
			asked, otherwise = "asks for the name", "wants `-destroy=NAME` or `-yes`"
		case c.Kind == converge.CostDestroy:
			asked, otherwise = "asks for the name", "wants `-yes`"
		case c.Kind == converge.CostLogin:
			asked, otherwise = "asks, y or N", "wants `-login` or `-yes`"
		case asked != "goes on":
		case k.verb == nil:
			asked, otherwise = "asks, y or N", "wants `-restart` or `-yes`"
		default:
			asked, otherwise = "asks, y or N", "wants `-yes`"
		}
	}
	return fmt.Sprintf("| %s | %s | ", asked, otherwise)
}

// peopled is a world that is up, where people work, and its file.
func peopled(t *testing.T) (*world, string) {
	t.Helper()
	w := newWorld(t, pvesim.EightA100())
	edge := w.external(t, "10.0.0.40")
	t.Cleanup(edge.Kill)
	meet(t, filepath.Join(w.dir, "known_hosts"), "10.0.0.40", edge)
	text := consenting + fmt.Sprintf("charts: {folder: %s, offline: true}\n", charts(t))
	w.up(t, parse(t, text))
	time.Sleep(time.Minute)
	require.NoError(t, w.kube.Clusters()[0].Apply(t.Context(), []byte(people)))
	time.Sleep(time.Minute)
	return w, text
}

// Of every kind of change: the plan says what it costs, which is the table of the docs; and
// whoever has agreed to nothing loses nothing, while what costs nothing is done.
func TestNothingIsLostWithoutConsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, text := peopled(t)
		require.Empty(t, w.plan(t, parse(t, text)))
		mine := share.Start(t, "changes that nobody agreed to")
		var answers []string // in the order of the table
		changes := map[string][]string{}
		for _, k := range kindsOfChange() {
			plan, err := k.graph(t, w, text).Plan(t.Context())
			require.NoError(t, err)
			require.NoError(t, plan.Err(), k.what)
			require.True(t, plan.Changes(), k.what)
			costs := (&converge.Agreement{}).NotAgreed(plan)
			answer := k.answer(costs)
			if changes[answer] == nil {
				answers = append(answers, answer)
			}
			changes[answer] = append(changes[answer], k.what)
			if !mine.Next() {
				continue
			}
			w.losesNothing(t, k, text, costs)
			if k.stays {
				text = replace(t, text, k.old, k.new)
			}
			w.takeBack(t, k, text)
		}
		rows := "| on a terminal | without one | changes |\n|---|---|---|\n"
		for _, answer := range answers {
			rows += answer + strings.Join(changes[answer], "; ") + " |\n"
		}
		docTable(t, "changes", rows)
	})
}

// losesNothing runs a change to which nobody has agreed.
func (w *world) losesNothing(t *testing.T, k kindOfChange, text string, costs []converge.Cost) {
	t.Helper()
	before, disks, keys := w.now(), len(w.sim.Volumes()), w.authorized(t, "cp1")
	g := k.graph(t, w, text)
	g.Approve = (&converge.Agreement{}).Approve
	report, err := g.Run(t.Context(), w.listen(t))
	for _, step := range report.Steps {
		var no *converge.RefusedError
		assert.True(t, step.Err == nil || errors.As(step.Err, &no), "%s: %s: %v", k.what, step.Step, step.Err)
	}
	assert.Equal(t, len(costs) > 0, err != nil, "%s: %v", k.what, err)
	did := before.changes()
	for _, name := range did.Restarted {
		assert.NotContains(t, before.machines, name, k.what)
	}
	for _, request := range did.Proxmox {
		assert.False(t, fatal.MatchString(request), "%s: %s", k.what, request)
	}
	for _, request := range did.Kubernetes {
		assert.False(t, ends.MatchString(request), "%s: %s", k.what, request)
	}
	assert.GreaterOrEqual(t, len(w.sim.Volumes()), disks, k.what)
	assert.Equal(t, keys, w.authorized(t, "cp1"), k.what)
}

// takeBack brings the world to what the file said before.
func (w *world) takeBack(t *testing.T, k kindOfChange, text string) {
	t.Helper()
	back := w.cluster(t, parse(t, text)).Up()
	check := w.announced(t, back)
	_, err := back.Run(t.Context(), w.listen(t))
	require.NoError(t, err, k.what)
	check()
	time.Sleep(time.Minute)
}

// Who works where, on which disks, is said by name.
func TestCostsAreByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, text := peopled(t)
		changed := strings.NewReplacer(
			"  wk1: {address: 10.0.0.31, cores: 4, memory: 8GiB, disks: {data: {size: 50GiB, mount: /data, role: data}}}\n", "",
			"  wk2: {address: 10.0.0.32, cores: 4, memory: 8GiB}\n", "",
			"memory: 32GiB, gpus: 1", "memory: 24GiB, gpus: 1", "count: 2, sharing", "count: 1, sharing", "monitoring: {size: 10GiB}\n", "").Replace(text)
		noHub, _, _ := strings.Cut(text, "hub:")
		noHub += fmt.Sprintf("charts: {folder: %s, offline: true}\n", charts(t))
		c := w.cluster(t, parse(t, text))
		replaced, err := c.NodeReplace(t.Context(), "wk1", true)
		require.NoError(t, err)
		down, err := c.Down(t.Context())
		require.NoError(t, err)
		var out []string
		for _, g := range []*converge.Graph{w.cluster(t, parse(t, changed)).Up(), w.cluster(t, parse(t, noHub)).Up(), replaced, down} {
			plan, err := g.Plan(t.Context())
			require.NoError(t, err)
			require.NoError(t, plan.Err())
			for _, it := range plan.Items {
				for _, c := range it.Costs {
					out = append(out, fmt.Sprintf("%s: %s (%s) with %q ends %q", it.Step, c, c.Reason, c.Holds, others.ReplaceAllString(strings.Join(converge.LossTexts(c.Users), ", "), "N others")))
				}
			}
			out = append(out, "")
		}
		golden(t, "consent.txt", strings.Join(out, "\n")+"\n")
	})
}

// others counts pods that are made again: where they are is the scheduler's business.
var others = regexp.MustCompile(`\d+ (?:other pods?|pods? that (?:are|is) made again)`)

// A host's API may answer while Kubernetes' does not: then that is said in the place of names.
func TestCostsWhereNobodyKnows(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, oneDisk))
		time.Sleep(time.Minute)
		_, err := w.guests()["cp1"].AgentExec([]string{"systemctl", "stop", "k3s"}, nil)
		require.NoError(t, err)
		plan, err := w.cluster(t, parse(t, replace(t, oneDisk, "role: server,", "role: server, cores: 6,"))).Up().Plan(t.Context())
		require.NoError(t, err)
		for _, it := range plan.Items {
			if it.Step == "vm/cp1" {
				require.Len(t, it.Costs, 1)
				require.Len(t, it.Costs[0].Users, 1)
				assert.Contains(t, it.Costs[0].Users[0].Text, "cannot find out whose work ends: ")
				return
			}
		}
		assert.Fail(t, "no vm/cp1")
	})
}

// docTable compares a table of docs/consent.md with what the code says.
func docTable(t testing.TB, name, want string) {
	t.Helper()
	docBlock(t, "../docs/consent.md", name, want)
}

// docBlock compares a part of a page with what the code says.
func docBlock(t testing.TB, path, name, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	begin, end := "<!-- "+name+" -->\n\n", "\n<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(string(b), begin)
	have, after, also := strings.Cut(rest, end)
	require.True(t, ok && also, "%s has no %q", path, begin)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o644))
		return
	}
	assert.Equal(t, want, have, "run the test with -update")
}
