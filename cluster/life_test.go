package cluster_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func TestUpTwice(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		inventory, before := w.inventory(), w.now()

		report := w.up(t, spec)
		assert.Equal(t, len(report.Steps), report.Count(converge.Unchanged))
		assert.Equal(t, changes{}, before.changes())

		time.Sleep(time.Minute) // nothing is fresh in anybody's memory
		asked := len(w.sim.Requests())
		w.up(t, spec)
		var reads []string
		for _, r := range w.sim.Requests()[asked:] {
			reads = append(reads, r.Method+" "+r.Path)
		}
		assert.LessOrEqual(t, len(reads), 10+len(spec.Nodes), "%q", reads)
		assert.Empty(t, w.plan(t, spec))
		assert.Equal(t, changes{}, before.changes())
		assert.Equal(t, inventory, w.inventory())
	})
}

func TestPlanOfAnEmptyHost(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec, before := parse(t, lab(example(t, "one-gpu"))), w.now()
		got := w.plan(t, spec)
		for i := range got { // digests of inputs
			got[i] = digests.ReplaceAllString(got[i], "-…")
		}
		assert.Equal(t, []string{
			"template/pve1: one-gpu-template-pve1-…",
			"seed/server1: first-boot ISO on local",
			"vm/server1: after template/pve1",
			"guest/server1: after vm/server1",
			"seed/gpu1: first-boot ISO on local",
			"gpus/gpu1: mapping of 1 GPU [0000:01:00: GeForce RTX 4090, the only one, IOMMU group 13 of its own]",
			"vm/gpu1: after template/pve1",
			"guest/gpu1: after vm/gpu1",
			"driver/gpu1: after guest/gpu1",
			"k3s/server1: after guest/server1",
			"api/192.168.1.61: after k3s/server1",
			"k3s/gpu1: after driver/gpu1",
			"kubeconfig: after api/192.168.1.61",
			"node/server1: after k3s/server1",
			"node/gpu1: after k3s/gpu1",
			"device-plugin: after kubeconfig",
			"allocatable/gpu1: after node/gpu1",
			"leftovers: after kubeconfig",
		}, got)
		assert.Equal(t, changes{}, before.changes(), "a plan changes nothing")
	})
}

// Another first boot is another machine: the plan says so, and not only that there is a
// new ISO to upload.
func TestPlanOfAnotherFirstBoot(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, lab(example(t, "one-gpu"))))
		plan := w.looks(t, parse(t, lab(example(t, "one-gpu"))+"guest: {timezone: Europe/Vienna}\n"))
		var seen []string
		for _, it := range plan.Items {
			switch it.Step {
			case "seed/server1", "seed/gpu1":
				assert.Equal(t, "another first-boot ISO on local", it.Diff.String())
				seen = append(seen, it.Step)
			case "vm/server1":
				assert.Equal(t, converge.Change, it.Verdict)
				assert.Equal(t, converge.Replace, it.Diff.Effect(), "%s", it.Diff)
				seen = append(seen, it.Step)
			}
		}
		assert.Equal(t, []string{"seed/server1", "vm/server1", "seed/gpu1"}, seen)
	})
}

// A plan in the middle of a life says what the next up does, wherever it was cut.
func TestPlanTellsTheTruth(t *testing.T) {
	spec := parse(t, lab(example(t, "one-gpu")))
	mine := share.Start(t, "plans of lives cut off")
	for at := time.Duration(0); at < 90*time.Second; at += 3 * time.Second {
		if !mine.Next() {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				done := w.cut(t, spec, at)
				before := w.now()
				early := w.looks(t, spec)
				time.Sleep(3 * time.Minute) // until what goes on by itself has come to its end
				plan := w.looks(t, spec)
				assert.Empty(t, before.changes().Proxmox, "a plan changes nothing")
				assert.Empty(t, before.changes().Kubernetes, "a plan changes nothing")
				for i, it := range early.Items {
					if it.Verdict == converge.Clean {
						assert.Equal(t, converge.Clean, plan.Items[i].Verdict, "%s was fine at once", it.Step)
					}
				}
				if done {
					assert.False(t, plan.Changes())
				}
				fulfils(t, w.up(t, spec), plan)
				assert.Empty(t, w.plan(t, spec))
			})
		})
	}
}

// looks makes a plan that could look everywhere.
func (w *world) looks(t testing.TB, spec *spec.Spec) *converge.Plan {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	plan, err := c.Up().Plan(t.Context())
	require.NoError(t, err)
	require.NoError(t, plan.Err())
	return plan
}

// cut runs up for some time and reports whether that was enough.
func (w *world) cut(t testing.TB, spec *spec.Spec, after time.Duration) (done bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	c := w.cluster(t, spec)
	defer c.Close()
	begin := time.Now()
	_, err := c.Up().Run(ctx, w.listen(t))
	if err == nil {
		return true
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.LessOrEqual(t, time.Since(begin)-after, 2*time.Second, "Ctrl-C returns at once")
	return false
}

// fulfils checks that a run did what a plan said. What could not be checked when
// the plan was made may be found in order.
func fulfils(t testing.TB, report *converge.Report, plan *converge.Plan) {
	t.Helper()
	want := map[converge.Verdict][]converge.Kind{
		converge.Clean: {converge.Unchanged}, converge.Change: {converge.Changed}, converge.Wait: {converge.Changed},
		converge.Deferred: {converge.Changed, converge.Unchanged},
	}
	for _, it := range plan.Items {
		if it.Step == "kubeconfig" && it.Verdict == converge.Clean {
			continue // a file on this machine, which no plan is about
		}
		did, _ := report.Step(it.Step)
		assert.Contains(t, want[it.Verdict], did.Kind, "%s was planned as %s: %s", it.Step, it.Verdict, it.Diff)
	}
}

var digests = regexp.MustCompile(`-[0-9a-f]{12}\b`)

// edited is the eight-A100 example with one worker that differs from its pool.
const edited = `
nodes:
  wk-gpu2:
    memory: 128GiB
    labels: {homelab.example/tier: silver}
`

func TestChangeOfAWorker(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := example(t, "eight-a100") + edited
		w.up(t, parse(t, text))
		guest := lodger("notebook", "wk-gpu2", 1)
		evicted := "POST /api/v1/namespaces/default/pods/" + w.moveIn(t, guest) + "/eviction"
		id := w.vm(t, "wk-gpu2").ID
		before, listened := w.now(), w.output.Len()

		spec := parse(t, replace(t, replace(t, text, "    memory: 128GiB\n    labels", "    memory: 96GiB\n    labels"), "silver", "gold"))
		assert.Equal(t, []string{
			"vm/wk-gpu2: memory: 128GiB → 96GiB (needs a restart)",
			"k3s/wk-gpu2: config/node-label: homelab.example/tier=silver → homelab.example/tier=gold",
			"node/wk-gpu2: label/homelab.example/tier: silver → gold",
		}, w.plan(t, spec))
		assert.Equal(t, changes{}, before.changes(), "a plan changes nothing")

		report := w.up(t, spec)
		var did []string
		for _, s := range report.Steps {
			if s.Kind == converge.Changed {
				did = append(did, s.Step)
			}
		}
		assert.Equal(t, []string{"vm/wk-gpu2", "k3s/wk-gpu2", "node/wk-gpu2"}, did)
		vm, node := fmt.Sprintf("/nodes/pve1/qemu/%d", id), "PATCH /api/v1/nodes/wk-gpu2?fieldManager=homelab"
		assert.Equal(t, changes{
			Proxmox:   []string{"POST " + vm + "/config", "POST " + vm + "/status/shutdown", "POST " + vm + "/status/start"},
			Restarted: []string{"wk-gpu2"},
			Kubernetes: []string{
				node, // cordoned
				evicted,
				node, // let pods back
				node, // the label
			},
		}, before.changes())
		now := w.nodes(t)["wk-gpu2"]
		assert.True(t, now.Ready)
		assert.False(t, now.Cordoned)
		assert.Equal(t, "gold", now.Labels["homelab.example/tier"])
		assert.EqualValues(t, 2, now.Count("nvidia.com/gpu"))
		assert.Equal(t, "98304", w.vm(t, "wk-gpu2").Config["memory"])
		assert.Contains(t, w.output.String()[listened:], "draining wk-gpu2")
		w.running(t, guest)
		assert.Empty(t, w.plan(t, spec))
	})
}

func TestRemovalOfAWorker(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := example(t, "eight-a100")
		w.up(t, parse(t, text))
		evicted := "POST /api/v1/namespaces/default/pods/" + w.moveIn(t, lodger("notebook", "wk-gpu4", 1)) + "/eviction"
		before, inventory, id := w.now(), w.inventory(), w.vm(t, "wk-gpu4").ID

		spec := parse(t, replace(t, replace(t, text, "count: 4", "count: 3"), "10.0.0.21-10.0.0.24", "10.0.0.21-10.0.0.23"))
		plan := w.plan(t, spec)
		require.Len(t, plan, 2)
		assert.Equal(t, fmt.Sprintf("removed: wk-gpu4: VM %d on pve1 → (none) [no longer in the file]", id), plan[0])
		assert.Regexp(t, `^leftovers: \S*homelab_eight-a100_wk-gpu4_[\w-]+\.iso:? on pve1 → \(none\); mapping/eight-a100_wk-gpu4: unused → \(none\)$`, plan[1])

		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		did := before.changes()
		assert.Equal(t, []string{
			fmt.Sprintf("POST /nodes/pve1/qemu/%d/status/stop", id), fmt.Sprintf("DELETE /nodes/pve1/qemu/%d", id),
		}, did.Proxmox[:2])
		require.Len(t, did.Proxmox, 4)
		assert.Regexp(t, `^DELETE /nodes/pve1/storage/local/content/local:iso/homelab_eight-a100_wk-gpu4_[\w-]+.iso$`, did.Proxmox[2])
		assert.Equal(t, "DELETE /cluster/mapping/pci/eight-a100_wk-gpu4", did.Proxmox[3])
		assert.Equal(t, []string{
			"PATCH /api/v1/nodes/wk-gpu4?fieldManager=homelab", evicted, "DELETE /api/v1/nodes/wk-gpu4",
		}, did.Kubernetes)
		assert.Empty(t, did.Guests)
		assert.Empty(t, did.Restarted)
		var rest []string
		for _, line := range inventory {
			if !strings.Contains(line, "wk-gpu4") {
				rest = append(rest, line)
			}
		}
		assert.Equal(t, rest, w.inventory())
		assert.NotContains(t, w.nodes(t), "wk-gpu4")
		assert.Len(t, w.nodes(t), 6)
	})
}

// lodger is somebody's Deployment of one pod on one node.
func lodger(name, node string, gpus int64) *appsv1.Deployment {
	one, labels := int32(1), map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{corev1.LabelHostname: node}, Tolerations: check.Tolerations(),
					Containers: []corev1.Container{{Name: "main", Image: "registry.example/notebook", Resources: corev1.ResourceRequirements{
						Limits: corev1.ResourceList{nvidia.Resource: *resource.NewQuantity(gpus, resource.DecimalSI)},
					}}},
				},
			},
		},
	}
}

// moveIn makes a Deployment and returns its pod's name, as soon as it runs.
func (w *world) moveIn(t testing.TB, d *appsv1.Deployment) string {
	t.Helper()
	_, err := w.api(t).Apply(t.Context(), d)
	require.NoError(t, err)
	return w.running(t, d)
}

// running waits until a Deployment's pod runs.
func (w *world) running(t testing.TB, d *appsv1.Deployment) string {
	t.Helper()
	client := w.api(t)
	for range 60 {
		holders, err := client.Holders(t.Context(), nvidia.Resource, d.Spec.Template.Spec.NodeSelector[corev1.LabelHostname])
		require.NoError(t, err)
		if len(holders) == 1 && holders[0].Phase == string(corev1.PodRunning) {
			return holders[0].Pod
		}
		time.Sleep(time.Second)
	}
	require.FailNow(t, "the pod does not start", d.Name)
	return ""
}
