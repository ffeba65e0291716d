package helm

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

func listening(ctx context.Context) (context.Context, func() []string) {
	var mu sync.Mutex
	var said []string
	ctx = converge.WithProgress(ctx, func(u converge.ProgressUpdate) { mu.Lock(); defer mu.Unlock(); said = append(said, u.Message) })
	return ctx, func() []string { mu.Lock(); defer mu.Unlock(); return said }
}

func TestFew(t *testing.T) {
	assert.Equal(t, "a; b; c", firstReasons([]string{"a", "b", "c"}))
	assert.Equal(t, "a; b; c; and 1 more", firstReasons([]string{"a", "b", "c", "d"}))
	assert.Equal(t, "a", firstReasons([]string{"a"}))
}

// TestUntil: looks come soon at first and every two seconds then; what is waited for is said when
// it changes; what passes is waited for, and any other error ends it.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, said := listening(t.Context())
		var at []time.Duration
		began := time.Now()
		steps := []string{"a", "a", "b", "b", "b", "b", "b", "b", "b", "b", "b", ""}
		require.NoError(t, waitUntilNone(ctx, func(context.Context) ([]string, error) {
			at = append(at, time.Since(began))
			if s := steps[len(at)-1]; s != "" {
				return []string{s}, nil
			}
			return nil, nil
		}))
		ms := time.Millisecond
		assert.Equal(t, []time.Duration{0, 200 * ms, 500 * ms, 950 * ms, 1625 * ms}, at[:5])
		assert.Equal(t, 2*time.Second, at[11]-at[10])
		assert.Equal(t, []string{"waiting: a", "waiting: b"}, said())

		away := &kube.Error{Doing: "look", Kind: kube.ErrUnreachable, Err: errors.New("refused")}
		looks := 0
		ctx, said = listening(t.Context())
		require.NoError(t, patiently(ctx, func(context.Context) error {
			if looks++; looks < 4 {
				return away
			}
			return nil
		}))
		assert.Equal(t, 4, looks)
		assert.Equal(t, []string{"waiting: look: the API server does not answer: refused"}, said())
		looks = 0
		broken := errors.New("broken")
		require.ErrorIs(t, patiently(t.Context(), func(context.Context) error { looks++; return broken }), broken)
		assert.Equal(t, 1, looks)

		over := errors.New("over")
		within, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, over)
		defer cancel()
		began = time.Now()
		err := waitUntilNone(within, func(context.Context) ([]string, error) { return []string{"x"}, nil })
		require.EqualError(t, err, "over: still waiting: x")
		require.ErrorIs(t, err, over)
		assert.Equal(t, 10*time.Second, time.Since(began))
		require.EqualError(t, waitUntilNone(within, func(context.Context) ([]string, error) { return nil, nil }), "over", "what a look says then is worth nothing")
		require.ErrorIs(t, finalError{broken}, broken)
	})
}

const (
	pods   = "GET /api/v1/namespaces/web/pods"
	events = "GET /api/v1/namespaces/web/events"
)

// TestNotReadySaysWhatPodsSay: and the controller where there are none, and the storage class of a claim.
func TestNotReadySaysWhatPodsSay(t *testing.T) {
	pending := func(name, more string) string {
		return `{metadata: {name: ` + name + more + `}, status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: none}]}}`
	}
	const (
		deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: web}, spec: {selector: {matchLabels: {b: c, a: b}}}}"
		claim      = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: web}, spec: {storageClassName: fast}}"
		class      = "GET /apis/storage.k8s.io/v1/storageclasses/fast"
		no         = "{items: []}"
		quota      = "{items: [{reason: FailedCreate, message: quota}]}"
		lacks      = "0 of 1 pods are of this version"
		unbound    = "no volume is bound to it yet"
	)
	for _, c := range []struct {
		object  string
		answers map[string]string
		want    string
	}{
		{deployment, map[string]string{pods: "{items: [" + pending("a", "") + "]}"}, lacks + ": pod a: Unschedulable: none"},
		{deployment, map[string]string{pods: "{items: [" + pending("gone", `, deletionTimestamp: "2026-11-22T03:04:05Z"`) + ", {metadata: {name: slow}, status: {phase: Running}}, " + pending("b", "") + "]}"}, lacks + ": pod b: Unschedulable: none"},
		{deployment, map[string]string{pods: "{items: [{metadata: {name: slow}, status: {phase: Running}}]}"}, lacks},
		{deployment, map[string]string{pods: `{items: [{metadata: {name: well}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}]}`}, lacks},
		{deployment, map[string]string{pods: `{items: [{metadata: {name: odd}, status: {phase: 5}}]}`}, lacks},
		{deployment, map[string]string{pods: no, events: quota}, lacks + ": FailedCreate: quota"},
		{deployment, map[string]string{pods: no, events: no}, lacks},
		{strings.Replace(deployment, "{b: c, a: b}", "{}", 1), nil, lacks},
		{strings.Replace(deployment, "spec: {", "spec: {replicas: 0, ", 1), nil, ""},
		{strings.Replace(deployment, "spec: {", "spec: {paused: true, ", 1), nil, ""},
		{strings.Replace(deployment, "spec: {", "spec: {paused: false, ", 1), map[string]string{pods: no, events: no}, lacks},
		{strings.Replace(strings.Replace(deployment, "spec: {", "spec: {paused: true, ", 1), "Deployment", "StatefulSet", 1), map[string]string{pods: no, events: quota}, lacks + ": FailedCreate: quota"},
		{strings.Replace(claim, "spec:", "status: {phase: Bound}, spec:", 1), nil, ""},
		{claim, map[string]string{class: "{volumeBindingMode: WaitForFirstConsumer}"}, ""},
		{claim, map[string]string{class: "{volumeBindingMode: Immediate}", events: quota}, unbound + ": FailedCreate: quota"},
		{claim, map[string]string{events: no}, unbound},
		{strings.Replace(claim, "fast", `""`, 1), map[string]string{events: quota}, unbound + ": FailedCreate: quota"},
		{strings.Replace(claim, "namespace: web", "namespace: web, annotations: {volume.kubernetes.io/selected-node: wk1}", 1), map[string]string{events: quota}, unbound + ": FailedCreate: quota"},
		{"{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: web}}", nil, nothingKnown},
	} {
		answers := map[string]any{}
		for name, text := range c.answers {
			answers[name] = asJSON(t, text)
		}
		client, k := talking(t, answers)
		why, err := client.unreadyReason(t.Context(), thing(t, c.object))
		require.NoError(t, err, "%+v", c)
		assert.Equal(t, c.want, why, "%+v", c)
		if _, asked := c.answers[pods]; asked {
			assert.Equal(t, "labelSelector=a%3Db%2Cb%3Dc&limit=500", k.queries[pods])
		}
	}
	for _, c := range []struct {
		object  string
		answers map[string]any
	}{
		{deployment, map[string]any{pods: "403 hidden"}}, {deployment, map[string]any{pods: `{"items":[]}`, events: "403 hidden"}},
		{claim, map[string]any{class: "403 hidden"}}, {claim, map[string]any{events: "403 hidden"}},
	} {
		client, _ := talking(t, c.answers)
		_, err := client.unreadyReason(t.Context(), thing(t, c.object))
		require.ErrorIs(t, err, kube.ErrForbidden)
	}
	client, _ := talking(t, nil)
	why, err := client.unreadyReason(t.Context(), thing(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: many}}"))
	require.Error(t, err)
	assert.Empty(t, why)
}

// TestAwaitReady: of what becomes ready, until it is, or until it never will be.
func TestAwaitReady(t *testing.T) {
	const (
		job    = "{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: web}}"
		jobs   = "GET /apis/batch/v1/namespaces/web/jobs/j"
		pod    = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: web}}"
		podGet = "GET /api/v1/namespaces/web/pods/p"
	)
	of := func(head, status string) string {
		return asJSON(t, strings.TrimSuffix(head, "}")+", status: "+status+"}")
	}
	done, failed := `{conditions: [{type: Complete, status: "True"}]}`, `{conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded}]}`
	run := func(t *testing.T, answers map[string]any, objs ...string) ([]string, []string, error) {
		c, k := talking(t, answers)
		var list []*unstructured.Unstructured
		for _, o := range objs {
			list = append(list, thing(t, o))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("over"))
		defer cancel()
		ctx, said := listening(ctx)
		err := c.awaitReady(ctx, list)
		return said(), k.heard, err
	}
	synctest.Test(t, func(t *testing.T) {
		said, heard, err := run(t, map[string]any{jobs: []string{"404", of(job, "{}"), of(job, done)}, podGet: []string{of(pod, "{phase: Pending}"), of(pod, "{phase: Succeeded}")}},
			job, pod, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")
		require.NoError(t, err)
		assert.Equal(t, []string{"waiting: job web/j is not there; pod web/p: it is not ready yet", "waiting: job web/j: it has not ended yet"}, said)
		pods := 0
		for _, h := range heard {
			assert.NotContains(t, h, "configmaps")
			if h == podGet {
				pods++
			}
		}
		assert.Equal(t, 2, pods, "what is ready is not checked again")

		began := time.Now()
		_, _, err = run(t, map[string]any{jobs: of(job, failed)}, job)
		require.EqualError(t, err, "job web/j: it has failed: BackoffLimitExceeded")
		_, _, err = run(t, map[string]any{podGet: of(pod, "{phase: Failed, reason: Evicted}")}, pod)
		require.EqualError(t, err, "pod web/p: Evicted")
		_, _, err = run(t, map[string]any{podGet: "403 hidden"}, pod)
		require.ErrorIs(t, err, kube.ErrForbidden)
		_, _, err = run(t, nil, strings.Replace(job, "}}", "}, spec: {ttlSecondsAfterFinished: 5}}", 1))
		require.NoError(t, err, "it has ended and is gone")
		assert.Equal(t, time.Duration(0), time.Since(began))
		_, _, err = run(t, nil, pod)
		require.EqualError(t, err, "over: still waiting: pod web/p is not there")
	})
	for kind, is := range map[string]bool{"Deployment": true, "DaemonSet": true, "StatefulSet": true, "Job": true, "Pod": true, "PersistentVolumeClaim": true,
		"CustomResourceDefinition": true, "APIService": true, "ConfigMap": false, "Service": false, "Gadget": false} {
		assert.Equal(t, is, waitable(&unstructured.Unstructured{Object: map[string]any{"kind": kind}}), kind)
	}
	assert.False(t, hopeless(thing(t, strings.Replace(pod, "Pod", "Gadget", 1)), "it has failed"))
	assert.False(t, hopeless(thing(t, job), "it has not ended yet"))
}

// TestAwaitGone: and who must allow it.
func TestAwaitGone(t *testing.T) {
	const path = "GET /api/v1/namespaces/web/configmaps/"
	synctest.Test(t, func(t *testing.T) {
		c, _ := talking(t, map[string]any{path + "a": []string{"{}", "404"}, path + "b": []string{`{"metadata": {"finalizers": ["x/one", "x/two"]}}`, `{"metadata": {}}`, "404"}})
		ctx, said := listening(t.Context())
		objs := []*unstructured.Unstructured{thing(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}}"), thing(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: web}}")}
		require.NoError(t, c.awaitGone(ctx, objs))
		assert.Equal(t, []string{"waiting: configmap web/a is being deleted; configmap web/b is being deleted, which x/one, x/two must allow", "waiting: configmap web/b is being deleted"}, said())
		c, _ = talking(t, map[string]any{path + "a": "403 hidden"})
		require.ErrorIs(t, c.awaitGone(t.Context(), objs), kube.ErrForbidden)
	})
}

// TestHooksThatRun: a Job until it has ended, a Pod too, any other object when it exists.
func TestHooksThatRun(t *testing.T) {
	const (
		job    = "{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: web}}"
		jobs   = "GET /apis/batch/v1/namespaces/web/jobs/j"
		pod    = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: web}}"
		podGet = "GET /api/v1/namespaces/web/pods/p"
		none   = `{"items": []}`
	)
	for _, c := range []struct {
		object  string
		answers map[string]any
		why     string
		err     string
	}{
		{job, map[string]any{jobs: asJSON(t, `{status: {conditions: [{type: Complete, status: "True"}]}}`), pods: none}, "", ""},
		{job, map[string]any{jobs: asJSON(t, `{status: {conditions: [{type: Failed, status: "True", reason: Late}]}}`), pods: none}, "", "job web/j has failed: Late"},
		{job, map[string]any{jobs: "{}", pods: none, events: none}, "it is pending", ""},
		{job, map[string]any{jobs: "{}", pods: asJSON(t, "{items: [{status: {phase: Running}}]}")}, "it is active", ""},
		{job, map[string]any{jobs: "{}", pods: none, events: asJSON(t, "{items: [{reason: FailedCreate, message: quota}]}")}, "it is pending: FailedCreate: quota", ""},
		{job, nil, "", "job web/j was deleted while it ran"},
		{strings.Replace(job, "}}", "}, spec: {ttlSecondsAfterFinished: 5}}", 1), nil, "", ""},
		{job, map[string]any{jobs: "403 hidden"}, "", "look at job web/j: not allowed: hidden"},
		{pod, map[string]any{podGet: `{"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}}`}, "", ""},
		{pod, map[string]any{podGet: `{"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Failed", "reason": "Evicted"}}`}, "", "pod web/p has failed: Evicted"},
		{pod, map[string]any{podGet: `{"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`}, "it runs", ""},
		{pod, map[string]any{podGet: `{"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Pending"}}`}, "it is not ready yet", ""},
		{pod, map[string]any{podGet: `{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": 5}, "status": {"phase": "Succeeded"}}`}, "", "cannot"},
		{pod, nil, "", "pod web/p was deleted while it ran"},
		{pod, map[string]any{podGet: "403 hidden"}, "", "read pod web/p: not allowed: hidden"},
		{"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: web}}", nil, "", ""},
	} {
		client, _ := talking(t, c.answers)
		why, err := client.running(t.Context(), thing(t, c.object))
		assert.Equal(t, c.why, why, "%+v", c)
		switch c.err {
		case "":
			require.NoError(t, err, "%+v", c)
		case "cannot":
			require.Error(t, err)
		default:
			require.EqualError(t, err, c.err)
			var final finalError
			assert.Equal(t, !strings.Contains(c.err, "hidden"), errors.As(err, &final), c.err)
		}
	}
	for _, c := range []struct {
		have []release.HookDeletePolicy
		at   release.HookDeletePolicy
		is   bool
	}{
		{nil, release.HookBeforeHookCreation, true}, {nil, release.HookSucceeded, false}, {nil, release.HookFailed, false},
		{[]release.HookDeletePolicy{release.HookSucceeded, release.HookFailed}, release.HookFailed, true}, {[]release.HookDeletePolicy{release.HookSucceeded}, release.HookBeforeHookCreation, false},
	} {
		assert.Equal(t, c.is, cleans(&release.Hook{DeletePolicies: c.have}, c.at), "%+v", c)
	}
}

// TestOrderOfHooks: by weight, then by name; those before one that failed are cleaned as successes,
// itself as a failure; a Job or Pod of before is always recreated.
func TestOrderOfHooks(t *testing.T) {
	const cms, jobs = "/api/v1/namespaces/web/configmaps", "/apis/batch/v1/namespaces/web/jobs"
	hook := func(kind, name string, weight int, policies ...release.HookDeletePolicy) *release.Hook {
		version := "v1"
		if kind == "Job" {
			version = "batch/v1"
		}
		return &release.Hook{Name: name, Kind: kind, Path: name + ".yaml", Weight: weight, Events: []release.HookEvent{release.HookPreInstall}, DeletePolicies: policies,
			Manifest: "{apiVersion: " + version + ", kind: " + kind + ", metadata: {name: " + name + "}}"}
	}
	other := hook("ConfigMap", "other", 0)
	other.Events = []release.HookEvent{release.HookPostInstall}
	synctest.Test(t, func(t *testing.T) {
		hooks := []*release.Hook{other, hook("ConfigMap", "c", 5), hook("ConfigMap", "b", 0, release.HookSucceeded), hook("ConfigMap", "a", 0, release.HookFailed, release.HookSucceeded), hook("Job", "j", -1, release.HookFailed)}
		answers := map[string]any{"PATCH " + jobs + "/j": "{}", "GET " + jobs + "/j": []string{"{}", "404", `{"status": {"conditions": [{"type": "Complete", "status": "True"}]}}`}, "DELETE " + jobs + "/j": "{}", pods: `{"items": []}`}
		for _, n := range []string{"a", "b", "c"} {
			answers["PATCH "+cms+"/"+n], answers["DELETE "+cms+"/"+n] = "{}", "{}"
			answers["GET "+cms+"/"+n] = []string{"{}", "404"}
		}
		c, k := talking(t, answers)
		rel := &release.Release{Name: "r", Namespace: "web", Hooks: hooks}
		ctx, said := listening(t.Context())
		require.NoError(t, c.runHooks(ctx, rel, release.HookPreInstall))
		assert.Equal(t, []string{jobs + "/j", cms + "/a", cms + "/b", cms + "/c"}, k.said("PATCH"))
		assert.Equal(t, []string{jobs + "/j", cms + "/c", cms + "/b", cms + "/a"}, k.said("DELETE"))
		assert.Contains(t, said(), "pre-install hook Job j")
		for _, h := range hooks[1:] {
			assert.Equal(t, release.HookPhaseSucceeded, h.LastRun.Phase)
			assert.False(t, h.LastRun.CompletedAt.IsZero())
		}
		assert.Empty(t, other.LastRun.Phase)

		hooks = []*release.Hook{hook("ConfigMap", "a", 0, release.HookSucceeded), hook("ConfigMap", "b", 1, release.HookFailed), hook("ConfigMap", "c", 2)}
		answers["PATCH "+cms+"/b"], answers["GET "+cms+"/a"], answers["GET "+cms+"/b"] = "403 no", []string{"{}", "404"}, []string{"{}", "404"}
		c, k = talking(t, answers)
		rel.Hooks = hooks
		err := c.runHooks(t.Context(), rel, release.HookPreInstall)
		require.EqualError(t, err, "pre-install hook b.yaml: apply configmap web/b: not allowed: no")
		assert.Equal(t, []string{cms + "/a", cms + "/b"}, k.said("PATCH"))
		assert.Equal(t, []string{cms + "/b", cms + "/a"}, k.said("DELETE"))
		assert.Equal(t, release.HookPhaseFailed, hooks[1].LastRun.Phase)

		for want, h := range map[string]*release.Hook{
			"pre-install hook x.yaml: manifest, document 1: ":                       {Name: "x", Path: "x.yaml", Manifest: "{"},
			"pre-install hook x.yaml: ask for the kinds of v9: not allowed: hidden": {Name: "x", Path: "x.yaml", Manifest: "{apiVersion: v9, kind: A, metadata: {name: a}}"},
			"pre-install hook x.yaml: read configmap web/hid: not allowed: hidden":  {Name: "x", Path: "x.yaml", Manifest: "{apiVersion: v1, kind: ConfigMap, metadata: {name: hid}}"},
			"hook x.yaml: read configmap web/late: not allowed: hidden":             {Name: "x", Path: "x.yaml", DeletePolicies: []release.HookDeletePolicy{release.HookSucceeded}, Manifest: "{apiVersion: v1, kind: ConfigMap, metadata: {name: late}}"},
		} {
			h.Events = []release.HookEvent{release.HookPreInstall}
			c, _ := talking(t, map[string]any{"GET /api/v9": "403 hidden", "GET " + cms + "/hid": "403 hidden", "GET " + cms + "/late": "403 hidden", "PATCH " + cms + "/late": "{}"})
			require.ErrorContains(t, c.runHooks(t.Context(), &release.Release{Name: "r", Namespace: "web", Hooks: []*release.Hook{h}}, release.HookPreInstall), want)
		}
	})
}

// TestLookups: what templates ask about the cluster, and what is not there.
func TestLookups(t *testing.T) {
	c, _ := talking(t, map[string]any{"GET /api/v1/namespaces/web/configmaps/a": `{"data": {"k": "v"}}`, "GET /api/v1/namespaces/web/configmaps": `{"items": [{"metadata": {"name": "a"}}]}`,
		"GET /api/v1/namespaces/web/secrets": "403 hidden", "GET /api/v1/namespaces/web/secrets/s": "403 hidden", "GET /apis/hid.example/v1": "403 hidden"})
	look := lookup{ctx: t.Context(), kube: c.kube}
	_, _, err := look.GetClientFor("hid.example/v1", "A")
	require.ErrorIs(t, err, kube.ErrForbidden)
	for kind, want := range map[string]bool{"ConfigMap": true, "Namespace": false, "Nothing": false} {
		of, namespaced, err := look.GetClientFor("v1", kind)
		require.NoError(t, err)
		assert.Equal(t, want, namespaced)
		_, err = of.Namespace("web").Get(t.Context(), "none", metav1.GetOptions{})
		require.ErrorContains(t, err, `"none" not found`)
	}
	cms, _, err := look.GetClientFor("v1", "ConfigMap")
	require.NoError(t, err)
	u, err := cms.Namespace("web").Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"k": "v"}, u.Object["data"])
	list, err := cms.Namespace("web").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, list.Items, 1)
	assert.Equal(t, "ConfigMapList", list.GetKind())
	secrets, _, err := look.GetClientFor("v1", "Secret")
	require.NoError(t, err)
	_, err = secrets.Namespace("web").List(t.Context(), metav1.ListOptions{})
	require.ErrorIs(t, err, kube.ErrForbidden)
	_, err = secrets.Namespace("web").Get(t.Context(), "s", metav1.GetOptions{})
	require.ErrorIs(t, err, kube.ErrForbidden)
	nothing, _, err := look.GetClientFor("none.example/v1", "Nothing")
	require.NoError(t, err)
	list, err = nothing.Namespace("web").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, list.Items)
}
