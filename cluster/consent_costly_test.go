package cluster_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
)

// changing is a cluster with something of every kind that can be lost with a machine.
const changing = `
name: ask
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
nvidia: {driver: {flavour: open}}
defaults: {storage: vmdata}
nodes:
  cp1: {role: server, address: 10.0.0.11, cores: 4, memory: 8GiB}
  gpu1: {address: 10.0.0.21, cores: 8, memory: 32GiB, gpus: {count: 2, sharing: {strategy: mps, replicas: 2}}}
  wk2: {address: 10.0.0.32, cores: 4, memory: 8GiB, disks: {data: {size: 50GiB, mount: /data, role: data}}}
`

// serving is a cluster with an NFS server, and with a part that people use.
const serving = `
name: ask
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
defaults: {storage: vmdata}
nodes:
  cp1: {role: server, address: 10.0.0.11, cores: 4, memory: 8GiB}
  wk2: {address: 10.0.0.32, cores: 4, memory: 8GiB}
storage:
  default: nfs
  nfs: {export: /export/k3s, shares: {sets: /export/sets}, vm: {name: files, address: 10.0.0.30, size: 100GiB, allow: [10.0.0.0/24, 192.168.7.0/24], memory: 2GiB}}
tls: self-signed
hub: {hostname: hub.lab.example, auth: dummy, profiles: {small: {cpu: 1, memory: 2GiB}}}
`

// costlyChange is a change that costs something, in a world that has something to lose.
type costlyChange struct {
	kindOfChange
	name      string
	node      string                                                    // of the machine that it is about; "": of none
	worker    string                                                    // where work starts, if not there
	namespace string                                                    // where work starts
	outside   bool                                                      // the machine is external
	site      func(t *testing.T, w *world) (text string)                // what is there, and its file
	begun     func(t *testing.T, w *world, text string) *converge.Graph // in place of the kind's own
	destroy   []string                                                  // agreed to by name, in place of what is shown
	whole     bool                                                      // it was agreed to with all that is in it
	// sudden means that nothing lies between the step's last look at its node and the request that
	// ends what is there.
	sudden bool
	ends   func(node map[string]any) bool // whether a node is such that the pods there end; nil: never
	events []event
}

// at is the node on which work starts.
func (k costlyChange) at() string {
	if k.worker != "" {
		return k.worker
	}
	return k.node
}

// costly are the kinds of cost.
func costly() []costlyChange {
	kinds := map[string]kindOfChange{}
	for _, k := range kindsOfChange() {
		kinds[k.what] = k
	}
	var out []costlyChange
	add := func(what string, c costlyChange) {
		c.kindOfChange = kinds[what]
		if c.another { // with the same file
			c.old, c.new = "name: ask", "name: ask"
		}
		if c.name == "" {
			c.name = what
		}
		out = append(out, c)
	}
	addNodes(add)
	addOthers(add)
	return out
}

const (
	leaves   = "a machine that left the file: drained, destroyed with its disks"
	setting  = "a VM's setting that counts from its next start (memory, cores, …)"
	detached = "a data disk that left the file: detached, its volume kept"
)

// addNodes adds what is about machines that homelab made.
func addNodes(add func(string, costlyChange)) {
	for _, what := range []string{setting, detached, "another version of K3s", "`node:drain` of a node with work on it", "`node:cycle`", "`node:replace`", "`cluster:down`", "a login on machines that know none of this run's keys (another token, another person)"} {
		add(what, costlyChange{node: "wk2", site: nodes("wk2"), sudden: what == "`cluster:down`", events: onMachine()})
	}
	add("a taint that evicts pods (`NoExecute`)", costlyChange{node: "wk2", site: nodes("wk2"), sudden: true, events: onMachine(), ends: func(node map[string]any) bool {
		taints, _, _ := unstructured.NestedSlice(node, "spec", "taints")
		return strings.Contains(fmt.Sprint(taints), "example.com/quiet")
	}})
	add("fewer GPUs for a node", costlyChange{node: "gpu1", site: nodes("gpu1"), events: append(onMachine(), computes())})
	add("GPUs shared in another way, while programs compute through MPS", costlyChange{node: "gpu1", site: nodes("gpu1"), sudden: true, events: append(onMachine(), computes()), ends: func(node map[string]any) bool {
		labels, _, _ := unstructured.NestedStringMap(node, "metadata", "labels")
		sharing := labels["homelab.cps-gpu.github.com/gpu-sharing"]
		return sharing != "" && !strings.HasPrefix(sharing, "mps")
	}})
	for _, what := range []string{"GPUs divided in another way, or whole again (MIG)", "another NVIDIA driver"} {
		add(what, costlyChange{node: "gpu1", site: nodes("gpu1"), events: append(onMachine(), computes())})
	}
	left := costlyChange{node: "wk2", site: nodes("wk2"), events: onMachine()}
	left.begun = func(t *testing.T, w *world, text string) *converge.Graph {
		return w.cluster(t, parse(t, withoutNode(t, text, "wk2"))).Up()
	}
	add(leaves, left)
	left.name, left.destroy, left.whole = "the same with `-destroy=NAME`", []string{"wk2"}, true
	add(leaves, left)
}

// addOthers adds what is about other things.
func addOthers(add func(string, costlyChange)) {
	for _, what := range []string{"`node:replace` of an external machine", "`node:remove`", "`cluster:down`"} {
		c := costlyChange{node: "edge", outside: true, site: withEdge, events: ofOutside()}
		if what == "`cluster:down`" {
			c.name, c.sudden = "`cluster:down`, with an external machine", true
		}
		add(what, c)
	}
	for _, what := range []string{"the same setting of the NFS server's VM", "a network that may no longer mount the NFS server's folders (`allow`)", "a share of the NFS server that left the file: its data stays there"} {
		c := costlyChange{node: "files", worker: "wk2", site: withParts, events: slices.Concat(ofVM(), ofWork(), []event{ofExports()})}
		if c.sudden = true; strings.HasPrefix(what, "the same") {
			c.name, c.sudden = "a setting of the NFS server's VM", false
		}
		add(what, c)
	}
	part := costlyChange{worker: "wk2", namespace: "jupyterhub", site: withParts, events: append(ofWork(), ofPart())}
	part.begun = func(t *testing.T, w *world, text string) *converge.Graph {
		before, rest, _ := strings.Cut(text, "hub: {")
		_, after, _ := strings.Cut(rest, "\n")
		return w.cluster(t, parse(t, before+after)).Up()
	}
	add("a part of the platform that left the file", part)
	add("", costlyChange{name: "`template:prune`", site: outdated, events: ofTemplate(), begun: func(t *testing.T, w *world, text string) *converge.Graph {
		g, err := w.cluster(t, parse(t, text)).Prune(t.Context())
		require.NoError(t, err)
		return g
	}})
	add("", costlyChange{name: "`cluster:restore`", node: "cp1", worker: "wk2", whole: true, site: nodes("wk2"), events: slices.Concat(ofVM(), ofWork()), begun: func(t *testing.T, w *world, text string) *converge.Graph {
		v, _ := w.backup(t, parse(t, text))
		r, _, err := v.open()
		require.NoError(t, err)
		g, err := w.cluster(t, parse(t, text)).Restore(r.Contents, v.open)
		require.NoError(t, err)
		return g
	}})
}

// nodes is changing, where somebody works on a node.
func nodes(node string) func(*testing.T, *world) string {
	return func(t *testing.T, w *world) string {
		w.up(t, parse(t, changing))
		time.Sleep(time.Minute)
		w.apply(t, workOn(node))
		return changing
	}
}

// workOn is a notebook, and a volume that is only on that node.
func workOn(node string) string {
	var out []string
	for _, document := range strings.Split(people, "---\n") {
		if strings.Contains(document, "student3") {
			out = append(out, document)
		}
	}
	return strings.NewReplacer("namespace: jupyterhub", "namespace: default", "wk2", node).Replace(strings.Join(out, "---\n"))
}

func withEdge(t *testing.T, w *world) string {
	w.edge = w.external(t, "10.0.0.40")
	t.Cleanup(w.edge.Kill)
	meet(t, filepath.Join(w.dir, "known_hosts"), "10.0.0.40", w.edge)
	text := withoutNode(t, withoutNode(t, changing, "gpu1"), "wk2") + "  edge: {external: ops@10.0.0.40}\n"
	w.up(t, parse(t, text))
	time.Sleep(time.Minute)
	w.apply(t, workOn("edge"))
	return text
}

func withParts(t *testing.T, w *world) string {
	text := serving + fmt.Sprintf("charts: {folder: %s, offline: true}\n", charts(t))
	w.up(t, parse(t, text))
	time.Sleep(time.Minute)
	w.apply(t, strings.ReplaceAll(workOn("wk2"), "namespace: default", "namespace: jupyterhub"))
	return text
}

// outdated is a template that no VM uses any more, and the file of another one.
func outdated(t *testing.T, w *world) string {
	text := withoutNode(t, withoutNode(t, changing, "gpu1"), "wk2")
	w.up(t, parse(t, text))
	w.byHand(t, parse(t, text), "cp1", "destroy")
	return replace(t, text, "v1.36.5+k3s1", "v1.36.6+k3s1")
}

// withoutNode removes a node's line.
func withoutNode(t *testing.T, text, node string) string {
	t.Helper()
	begin := strings.Index(text, "  "+node+": {")
	require.GreaterOrEqual(t, begin, 0)
	return text[:begin] + text[begin+strings.Index(text[begin:], "\n")+1:]
}
