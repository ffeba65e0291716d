package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changing is a cluster with something of every kind that can be lost with a machine.
const changing = `
name: ask
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
defaults: {storage: vmdata}
nodes:
  cp1: {role: server, address: 10.0.0.11, cores: 4, memory: 8GiB}
  gpu1: {address: 10.0.0.21, cores: 8, memory: 32GiB, gpus: 2}
  wk2: {address: 10.0.0.32, cores: 4, memory: 8GiB, disks: {data: {size: 50GiB, mount: /data, role: data}}}
`

// costly are the kinds of cost of that cluster, with the node of each.
func costly() map[string]string {
	return map[string]string{
		"a machine that left the file: drained, destroyed with its disks":   "wk2",
		"a VM's setting that counts from its next start (memory, cores, …)": "wk2",
		"a data disk that left the file: detached, its volume kept":         "wk2",
		"fewer GPUs for a node":  "gpu1",
		"another version of K3s": "wk2",
		"a taint that ends pods (`NoExecute`), where there are some": "wk2",
		"`node:drain`, where somebody works":                         "wk2",
		"`node:cycle`":                                               "wk2",
		"`node:replace`":                                             "wk2",
		"`cluster:down`":                                             "wk2",
	}
}

// inFile are the changes of the file for those kinds that the other cluster's file writes otherwise.
func inFile(k kindOfChange) kindOfChange {
	switch k.what {
	case "a machine that left the file: drained, destroyed with its disks":
		k.old = "  wk2: {address: 10.0.0.32, cores: 4, memory: 8GiB, disks: {data: {size: 50GiB, mount: /data, role: data}}}\n"
	case "fewer GPUs for a node":
		k.old, k.new = "gpus: 2", "gpus: 1"
	}
	return k
}

// event is what somebody else does to a machine in the meantime. It returns whether what has come is
// gone.
type event struct {
	what string
	do   func(t *testing.T, w *world, node string) (gone func() bool)
}

func events() []event {
	pod := func(note string) func(*testing.T, *world, string) func() bool {
		return func(t *testing.T, w *world, node string) func() bool {
			w.apply(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: late, namespace: default, %s}, spec: {nodeName: %s, containers: [{name: a, image: a}]}}", note, node))
			before, stops := w.now(), w.stops(w.vm(t, node).ID)
			return func() bool {
				return stops() || slices.ContainsFunc(before.changes().Kubernetes, func(request string) bool { return strings.Contains(request, "/pods/late") })
			}
		}
	}
	set := func(body string) func(*testing.T, *world, string) func() bool {
		return func(t *testing.T, w *world, node string) func() bool {
			vm := w.vm(t, node)
			w.set(t, vm.ID, body)
			return w.stops(vm.ID)
		}
	}
	return []event{
		{"a disk is added", func(t *testing.T, w *world, node string) func() bool {
			vm := w.vm(t, node)
			before := w.sim.Volumes()
			w.set(t, vm.ID, `{"scsi7":"vmdata:1"}`)
			w.sim.Settle()
			i := slices.IndexFunc(w.sim.Volumes(), func(v pvesim.Volume) bool { return !slices.Contains(before, v) })
			require.GreaterOrEqual(t, i, 0)
			id := w.sim.Volumes()[i].ID
			return func() bool {
				return !slices.ContainsFunc(w.sim.Volumes(), func(v pvesim.Volume) bool { return v.ID == id })
			}
		}},
		{"a notebook starts", pod("labels: {component: singleuser-server}, annotations: {hub.jupyter.org/username: student7}")},
		{"a pod starts that nobody makes again", pod("labels: {}")},
		{"a volume is made", func(t *testing.T, w *world, node string) func() bool {
			w.apply(t, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: late}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
  storageClassName: local-path, hostPath: {path: /late}, persistentVolumeReclaimPolicy: Delete, claimRef: {namespace: default, name: late},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}}}`, node))
			id := w.vm(t, node).ID
			return func() bool {
				return !slices.ContainsFunc(w.sim.VMs(), func(vm pvesim.VMState) bool { return vm.ID == id })
			}
		}},
		{"another run makes the machine again", func(t *testing.T, w *world, node string) func() bool {
			g, err := w.cluster(t, parse(t, changing)).NodeReplace(t.Context(), node, true)
			require.NoError(t, err)
			_, err = g.Run(t.Context(), nil)
			require.NoError(t, err)
			return w.stops(w.vm(t, node).ID)
		}},
		{"another cluster takes it", set(`{"tags":"homelab-others"}`)},
		{"it gets another name", set(`{"name":"mine"}`)},
	}
}

// stops reports whether a VM was stopped or destroyed since now.
func (w *world) stops(id int) func() bool {
	before := w.now()
	return func() bool {
		return slices.ContainsFunc(before.changes().Proxmox, func(request string) bool {
			m := fatal.FindStringSubmatch(request)
			return m != nil && (m[1] == fmt.Sprint(id) || m[2] == fmt.Sprint(id))
		})
	}
}

func (w *world) apply(t *testing.T, manifest string) {
	t.Helper()
	require.NoError(t, w.kube.Clusters()[0].Apply(t.Context(), []byte(manifest)))
}

// The world changes between a question and what was agreed to: at the question, when the run
// begins, and in the turn of a step that had to wait. Nothing is lost that was not shown.
func TestTheWorldChangesAfterTheQuestion(t *testing.T) {
	mine := share.Of(t, "changes after a question")
	rows := []string{"| what was agreed to | and then | at the question | when the run begins | in a step's turn |", "|---|---|---|---|---|"}
	all := true
	for _, k := range kindsOfChange() {
		node := costly()[k.what]
		if node == "" {
			continue
		}
		k = inFile(k)
		for _, e := range events() {
			row := fmt.Sprintf("| %s | %s |", k.what, e.what)
			for _, moment := range []string{"question", "begin", "turn"} {
				if moment == "turn" && !waits(k) {
					row += " – |"
					continue
				}
				if !mine.Next() {
					all = false
					continue
				}
				row += " " + lateChange(t, k, e, node, moment) + " |"
			}
			rows = append(rows, row)
		}
	}
	if all {
		docTable(t, "meanwhile", strings.Join(rows, "\n")+"\n")
	}
}

// lateChange runs one change, and something else at a moment of it. It says how that ended.
func lateChange(t *testing.T, k kindOfChange, e event, node, moment string) (out string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		w.up(t, parse(t, changing))
		time.Sleep(time.Minute)
		w.apply(t, strings.NewReplacer("namespace: jupyterhub", "namespace: default", "nodeName: gpu2", "nodeName: gpu1").Replace(people))
		time.Sleep(time.Minute)
		g := k.graph(t, w, changing)
		plan, err := g.Plan(t.Context())
		require.NoError(t, err)
		require.NoError(t, plan.Err(), k.what)
		agreed := &consent.Agreement{}
		require.NotEmpty(t, agreed.Lacking(plan), k.what)
		agreed.Agree(agreed.Lacking(plan)...)
		var gone func() bool
		var once sync.Once
		happens := func() { once.Do(func() { gone = e.do(t, w, node) }) }
		if moment == "question" {
			happens()
		}
		before := g.Before
		g.Before = func(ctx context.Context) error {
			if moment == "begin" {
				happens()
			}
			if before == nil {
				return nil
			}
			return before(ctx)
		}
		asked := map[string]int{}
		var mu sync.Mutex
		g.May = func(ctx context.Context, it converge.Item) error {
			mu.Lock()
			asked[it.Step]++
			second := asked[it.Step] == 2
			mu.Unlock()
			concerns := slices.ContainsFunc(it.Costs, func(c converge.Cost) bool { return strings.Contains(c.Machine, node) })
			if err := agreed.May(ctx, it); err != nil || moment != "turn" || !concerns || second {
				return err
			}
			happens()
			return nil
		}
		_, err = g.Run(t.Context(), w.listen(t))
		require.NotNil(t, gone, "%s (%s): it had no such moment", k.what, moment)
		var no *consent.RefusedError
		switch {
		case errors.As(err, &no):
			out = "asks"
		case err != nil:
			out = "fails"
		default:
			out = "not lost"
		}
		assert.False(t, gone(), "%s; %s (%s): it is lost, and nobody was asked: %v", k.what, e.what, moment, err)
	})
	return out
}

// waits reports whether the step of a change waits for others between the question whether it may
// begin and what it does.
func waits(k kindOfChange) bool {
	return !slices.Contains([]string{
		"a data disk that left the file: detached, its volume kept", "a taint that ends pods (`NoExecute`), where there are some",
		"`node:drain`, where somebody works", "`node:replace`", "`cluster:down`",
	}, k.what)
}
