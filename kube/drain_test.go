package kube_test

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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

func sleepMinute() { time.Sleep(time.Minute) }

// notebooks is a StatefulSet that only runs on one node, with a budget that
// forbids to remove it.
const notebooks = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: hub}
spec:
  selector: {matchLabels: {app: hub}}
  serviceName: hub
  template:
    metadata: {labels: {app: hub}}
    spec:
      nodeSelector: {kubernetes.io/hostname: wk1}
      containers: [{name: hub, image: hub}]
`

const budget = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: hub}
spec: {minAvailable: 1, selector: {matchLabels: {app: hub}}}
`

// onWK1 returns the pods on wk1 that ask for CPUs.
func onWK1(t *testing.T, w world) []string {
	t.Helper()
	var names []string
	held, err := w.Holders(t.Context(), "cpu", "wk1")
	require.NoError(t, err)
	for _, h := range held {
		names = append(names, h.Pod)
	}
	return names
}

func TestDrainEvictsAllButDaemons(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		withGPUs(t, w, "wk1")
		_, err := w.Apply(t.Context(), decode(t, strings.ReplaceAll(notebooks, "image: hub", "image: hub, resources: {requests: {cpu: 1}}"))...)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		assert.Len(t, onWK1(t, w), 1)
		require.NoError(t, w.Drain(t.Context(), "wk1", kube.Drain{}))
		assert.Empty(t, onWK1(t, w))
		n, err := w.Node(t.Context(), "wk1")
		require.NoError(t, err)
		assert.True(t, n.Cordoned)
		assert.EqualValues(t, 2, n.Count(gpu), "the device plugin is a daemon and stays")
		w.writes.take()
		require.NoError(t, w.Drain(t.Context(), "wk1", kube.Drain{}))
		assert.Empty(t, w.writes.take(), "draining an empty node writes nothing")
	})
}

func TestDrainHonoursBudgets(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		_, err := w.Apply(t.Context(), decode(t, notebooks+"---"+budget)...)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)

		var mu sync.Mutex
		var said []string
		ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { mu.Lock(); defer mu.Unlock(); said = append(said, u.Message) })
		began := time.Now()
		err = w.Drain(ctx, "wk1", kube.Drain{Timeout: 30 * time.Second})
		assert.WithinDuration(t, began.Add(30*time.Second), time.Now(), 3*time.Second)
		var drain *kube.DrainError
		require.ErrorAs(t, err, &drain)
		assert.Regexp(t, `^drain node wk1: 1 pods are still there: pod default/hub-[-\w]+: the PodDisruptionBudget hub \(minAvailable: 1\) never lets one of its 1 pods go: `+
			`add a replica, or change the budget until the node is back: kubectl -n default edit pdb hub$`, err.Error())
		mu.Lock()
		assert.Regexp(t, `^draining wk1: waiting for pod default/hub-[-\w]+: PDB `, said[0])
		mu.Unlock()

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, w.Drain(ctx, "wk1", kube.Drain{}), context.DeadlineExceeded)

		// The budget goes while the drain waits for it.
		go func() {
			time.Sleep(10 * time.Second)
			_ = w.Delete(t.Context(), decode(t, budget)...)
		}()
		require.NoError(t, w.Drain(t.Context(), "wk1", kube.Drain{}))
	})
}

func TestDrainRefusesToLoseData(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lone"}, Spec: corev1.PodSpec{
			NodeName: "wk1", Containers: []corev1.Container{{Name: "a", Image: "a"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}}
		_, err := w.Apply(t.Context(), pod)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		assert.ErrorContains(t, w.Drain(t.Context(), "wk1", kube.Drain{}), "pod default/lone has no controller that would recreate it")
		assert.ErrorContains(t, w.Drain(t.Context(), "wk1", kube.Drain{Force: true}), "has data in an emptyDir")
		require.NoError(t, w.Drain(t.Context(), "wk1", kube.Drain{Force: true, DeleteEmptyDir: true}))
		_, ok, err := w.Ready(t.Context(), pod)
		require.NoError(t, err)
		assert.False(t, ok)
	})
}

// What is evicted is what May was asked about: it is asked again about pods that come meanwhile, and
// what it refuses stays.
func TestDrainAsksAboutEachPod(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		lone := func(name string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{NodeName: "wk1", Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
		}
		there := func(name string) bool { return slices.Contains(w.sim.Names("pods"), "default/"+name) }
		_, err := w.Apply(t.Context(), lone("first"))
		require.NoError(t, err)
		asked, no := 0, errors.New("not agreed to")
		may := func(ctx context.Context) error {
			switch asked++; asked {
			case 1:
				n, err := w.Node(ctx, "wk1")
				require.NoError(t, err)
				assert.True(t, n.Cordoned, "nothing is scheduled there any more")
				assert.True(t, there("first"))
				_, err = w.Apply(ctx, lone("late"))
				require.NoError(t, err)
				return nil
			case 2:
				assert.True(t, there("late"))
				return no
			}
			return nil
		}
		require.ErrorIs(t, w.Drain(t.Context(), "wk1", kube.Drain{Force: true, Approve: may}), no)
		time.Sleep(time.Minute)
		assert.False(t, there("first"))
		assert.True(t, there("late"), "it was refused")
		require.NoError(t, w.Drain(t.Context(), "wk1", kube.Drain{Force: true, Approve: may}))
		assert.False(t, there("late"))
		require.NoError(t, w.Drain(t.Context(), "wk1", kube.Drain{Force: true, Approve: may}))
		assert.Equal(t, 3, asked, "there is nothing to ask about on an empty node")
	})
}

func TestDeleteNode(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "wk1.node-password.k3s"}}
		require.NoError(t, w.Get(t.Context(), secret))
		require.NoError(t, w.DeleteNode(t.Context(), "wk1"))
		require.NoError(t, w.DeleteNode(t.Context(), "wk1"), "twice is fine")
		require.ErrorIs(t, w.Get(t.Context(), secret), kube.ErrNotFound, "the name is free")
		assert.False(t, w.sim.HasNode("wk1"))
	})
}

// TestDrainOfWhatGoesByItself: nobody is asked about pods that have ended or go already, and no
// eviction is asked for twice.
func TestDrainOfWhatGoesByItself(t *testing.T) {
	const node, all = "GET /api/v1/nodes/wk1", "GET /api/v1/pods"
	cordoned := `{"metadata": {"name": "wk1"}, "spec": {"unschedulable": true}}`
	going := `, "deletionTimestamp": "2026-11-22T03:04:05Z"`
	evict := func(name string) string { return "POST /api/v1/namespaces/default/pods/" + name + "/eviction" }
	owned := `, "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "u", "apiVersion": "apps/v1", "controller": true}]`
	synctest.Test(t, func(t *testing.T) {
		lone := items(pod("done", "", `"volumes": [{"name": "v", "emptyDir": {}}]`, `"phase": "Succeeded"`), pod("dead", "", "", `"phase": "Failed"`), pod("gone", "", "", ""), pod("newer", owned, "", ""), pod("goes", going, "", `"phase": "Running"`))
		c, s := scripted(t, map[string]any{node: cordoned, all: []answer{{body: strings.Replace(lone, `"gone", "namespace": "default"`, `"gone", "namespace": "default"`+owned, 1)}, {body: items(pod("goes", going, "", ""), pod("newer", owned+going, "", ""))}, {body: items()}},
			evict("done"): "{}", evict("dead"): "{}", evict("newer"): refusal(409, "another of that name")})
		ctx, said := listening(t.Context())
		began := time.Now()
		require.NoError(t, c.Drain(ctx, "wk1", kube.Drain{GracePeriod: 90 * time.Second}))
		assert.Equal(t, 4*time.Second, time.Since(began))
		assert.Equal(t, []string{"draining wk1: waiting for pod default/done to end, and 2 more", "draining wk1: waiting for pod default/goes to end, and 1 more"}, said())
		var evicted []string
		for _, r := range s.all() {
			if r.verb == "POST" {
				evicted = append(evicted, r.verb+" "+r.path)
				assert.Contains(t, r.body, `"gracePeriodSeconds":90,"preconditions":{"uid":""}`)
			}
		}
		assert.Equal(t, []string{evict("done"), evict("dead"), evict("gone"), evict("newer")}, evicted)
		assert.Equal(t, []string{"spec.nodeName=wk1"}, s.all()[1].query["fieldSelector"])
	})
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, map[string]any{node: cordoned, all: []answer{{body: items(pod("gone", owned, "", ""))}, {body: items()}}})
		ctx, said := listening(t.Context())
		require.NoError(t, c.Drain(ctx, "wk1", kube.Drain{}))
		assert.Equal(t, []string{"draining wk1: its pods go"}, said())
		assert.NotContains(t, s.all()[2].body, "gracePeriodSeconds")
	})
	synctest.Test(t, func(t *testing.T) {
		c, _ := scripted(t, map[string]any{node: cordoned, all: items(pod("a", owned, "", "")), evict("a"): refusal(500, "broken")})
		require.EqualError(t, c.Drain(t.Context(), "wk1", kube.Drain{}), "evict pod default/a: broken", "it says at once what no budget says")
	})
	synctest.Test(t, func(t *testing.T) {
		refused := answer{status: 429, body: `{"kind": "Status", "code": 429, "message": "Cannot evict", "details": {"causes": [{"reason": "Other"}, {"reason": "DisruptionBudget", "message": "needs 1"}]}}`}
		c, _ := scripted(t, map[string]any{node: cordoned, all: items(pod("a", owned, "", ""), pod("b", owned, "", ""), pod("c", owned, "", "")), evict("a"): refused, evict("b"): refusal(429, "Cannot evict"),
			evict("c"): answer{status: 429, body: `{"kind": "Status", "code": 429, "message": "Busy", "details": {}}`}})
		began := time.Now()
		err := c.Drain(t.Context(), "wk1", kube.Drain{})
		require.EqualError(t, err, "drain node wk1: 3 pods are still there: pod default/a: PDB needs 1; pod default/b: PDB Cannot evict; pod default/c: PDB Busy")
		assert.InDelta(t, (5 * time.Minute).Seconds(), time.Since(began).Seconds(), 2)
	})
	synctest.Test(t, func(t *testing.T) {
		c, _ := scripted(t, map[string]any{node: cordoned, all: []answer{{body: items(pod("a", owned, "", ""))}, refusal(503, "away")}, evict("a"): "{}"})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := c.Drain(ctx, "wk1", kube.Drain{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, kube.ErrUnreachable)
		var left *kube.DrainError
		require.ErrorAs(t, err, &left)
		assert.Equal(t, []string{"pod default/a to end"}, left.Waiting)
		c, _ = scripted(t, map[string]any{node: cordoned, all: refusal(503, "away")})
		err = c.Drain(t.Context(), "wk1", kube.Drain{Timeout: 10 * time.Second})
		require.ErrorIs(t, err, kube.ErrUnreachable)
		assert.False(t, strings.Contains(err.Error(), "pods are still there"), "nobody knows of any")
	})
}

// TestWhoseBusinessADrainIs: pods of daemons and of the kubelet stay, others count.
func TestWhoseBusinessADrainIs(t *testing.T) {
	by := func(kind string, controller bool) string {
		return fmt.Sprintf(`, "ownerReferences": [{"kind": %q, "name": "r", "uid": "u", "apiVersion": "apps/v1", "controller": %t}]`, kind, controller)
	}
	c, _ := scripted(t, map[string]any{"GET /api/v1/pods": items(pod("a", by("DaemonSet", true), "", ""), pod("b", by("ReplicaSet", true), "", ""),
		pod("c", by("DaemonSet", false), "", ""), pod("d", `, "annotations": {"kubernetes.io/config.mirror": "x"}`, "", ""), pod("e", "", "", ""))})
	n, err := c.CountEvictions(t.Context(), "wk1")
	require.NoError(t, err)
	assert.Equal(t, 3, n)
}

// TestCordonWritesOnlyWhatIsNew: and removes the field instead of setting it to false.
func TestCordonWritesOnlyWhatIsNew(t *testing.T) {
	const node = "/api/v1/nodes/wk1"
	open, shut := `{"spec": {}}`, `{"spec": {"unschedulable": true}}`
	for _, c := range []struct {
		is   string
		do   func(*kube.Client) error
		want string
	}{
		{open, func(c *kube.Client) error { return c.Cordon(t.Context(), "wk1") }, `{"spec": {"unschedulable": true}}`},
		{shut, func(c *kube.Client) error { return c.Cordon(t.Context(), "wk1") }, ""},
		{shut, func(c *kube.Client) error { return c.Uncordon(t.Context(), "wk1") }, `{"spec": {"unschedulable": null}}`},
		{open, func(c *kube.Client) error { return c.Uncordon(t.Context(), "wk1") }, ""},
	} {
		client, s := scripted(t, map[string]any{"GET " + node: c.is, "PATCH " + node: "{}"})
		require.NoError(t, c.do(client))
		if c.want == "" {
			assert.Len(t, s.calls(), 1)
			continue
		}
		assert.JSONEq(t, c.want, s.all()[1].body)
	}
	client, _ := scripted(t, map[string]any{"GET " + node: open, "PATCH " + node: refusal(403, "no"), "DELETE " + node: refusal(403, "no")})
	require.EqualError(t, client.Cordon(t.Context(), "wk1"), "cordon node wk1: not allowed: no")
	require.EqualError(t, client.DeleteNode(t.Context(), "wk1"), "delete node wk1: not allowed: no")
	client, _ = scripted(t, map[string]any{"GET " + node: shut, "PATCH " + node: refusal(403, "no")})
	require.EqualError(t, client.Uncordon(t.Context(), "wk1"), "uncordon node wk1: not allowed: no")
}

// Why a budget lets no pod go, and what helps.
func TestBudgetsThatBlockAreExplained(t *testing.T) {
	three := strings.NewReplacer("kind: StatefulSet", "kind: Deployment", "  serviceName: hub\n", "  replicas: 3\n", "image: hub}", "image: hub, resources: {requests: {cpu: 1}}}").Replace(notebooks)
	for name, x := range map[string]struct{ objects, budget, want string }{
		"never": {three, strings.Replace(budget, "minAvailable: 1", "maxUnavailable: 0", 1),
			`pod default/hub-[-\w]+: the PodDisruptionBudget hub \(maxUnavailable: 0\) never lets one of its 3 pods go: add a replica, or change the budget until the node is back: kubectl -n default edit pdb hub`},
		"share": {three, strings.Replace(budget, "minAvailable: 1", `minAvailable: "90%"`, 1), `\(minAvailable: 90%\) never lets one of its 3 pods go`},
		"sick": {strings.Replace(three, "cpu: 1}", "cpu: 10}", 1), strings.Replace(budget, "minAvailable: 1", "minAvailable: 2", 1),
			`pod default/hub-[-\w]+: the PodDisruptionBudget hub \(minAvailable: 2\) wants 2 healthy pods, and of its 3 pods hub-[-\w]+, hub-[-\w]+ are not ready: ` +
				`bring those back first \(kubectl -n default describe pod hub-[-\w]+\)`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w world) {
				_, err := w.Apply(t.Context(), decode(t, x.objects+"---"+x.budget)...)
				require.NoError(t, err)
				time.Sleep(10 * time.Second)
				err = w.Drain(t.Context(), "wk1", kube.Drain{Timeout: 30 * time.Second})
				var drain *kube.DrainError
				require.ErrorAs(t, err, &drain)
				assert.Regexp(t, x.want, drain.Waiting[0])
			})
		})
	}
}
