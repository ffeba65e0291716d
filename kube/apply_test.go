package kube_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
)

const aConfigMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"

func live(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	return decode(t, manifest)[0].(*unstructured.Unstructured)
}

// TestDiffers: every leaf that differs by its path, lists of named things by their names,
// and nothing of what changes by itself.
func TestDiffers(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{`data: {a: b}`, `data: {a: b}`, ""},
		{`data: {a: b, c: d}`, `data: {c: e, x: w}`, "data.a: b → (none); data.c: d → e; data.x: w"},
		{`data: {a.b: c, 'x/y.z': '1'}`, `data: {a.b: d, 'x/y.z': '2'}`, "data[a.b]: c → d; data[x/y.z]: 1 → 2"},
		{`data: {a: b}`, `data: {a: ""}`, `data.a: b → ""`},
		{`data: {a: 5}`, `data: {a: {b: [1]}}`, `data.a: 5 → {"b":[1]}`},
		{`data: {a: [x, w]}`, `data: {a: [x]}`, `data.a: ["x","w"] → ["x"]`},
		{`data: {a: "b\n  c"}`, `data: {a: "b\t\td "}`, `data.a: b c → b d`},
		{`data: {a: [{name: x, v: 1}, {name: w, v: 2}]}`, `data: {a: [{name: w, v: 3}, {name: z}]}`, `data.a.w.v: 2 → 3; data.a.x: {"name":"x","v":1} → (none); data.a.z: {"name":"z"}`},
		{`data: {a: [{name: w, v: 2}, {name: x}]}`, `data: {a: [{name: x}, {name: w, v: 2}]}`, ""},
		{`data: {a: [{name: x, v: 1}, {name: x, v: 2}]}`, `data: {a: [{name: x, v: 1}]}`, `data.a: [{"name":"x","v":1},{"name":"x","v":2}] → [{"name":"x","v":1}]`},
		{`data: {a: [{name: x, v: 1}]}`, `data: {a: [{v: 1}]}`, `data.a: [{"name":"x","v":1}] → [{"v":1}]`},
		{`data: {a: [{name: x, v: 1}]}`, `data: {a: [{name: x, v: 2}, x]}`, `data.a: [{"name":"x","v":1}] → [{"name":"x","v":2},"x"]`},
		{`data: {a: [{name: x}]}`, `data: {a: text}`, `data.a: [{"name":"x"}] → text`},
		{`status: {a: 1}`, `status: {a: 2}`, ""},
		{`data: {}`, `spec: {}`, "data: {} → (none); spec: {}"},
	} {
		d := kube.DiffObjects(live(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}, "+c.before+"}"),
			live(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}, "+c.after+"}"))
		assert.Equal(t, c.want, strings.ReplaceAll(d.String(), "configmap/b/a/", ""), "%s, %s", c.before, c.after)
	}
	meta := func(kind, meta string) *unstructured.Unstructured {
		return live(t, "{apiVersion: v1, kind: "+kind+", metadata: {name: a, "+meta+"}}")
	}
	for _, c := range []struct{ before, after, want string }{
		{`resourceVersion: '1', generation: 1, managedFields: []`, `resourceVersion: '2', generation: 2`, ""},
		{`annotations: {deprecated.daemonset.template.generation: '1'}`, ``, ""},
		{`annotations: {deprecated.daemonset.template.generation: '1', a: b}`, `annotations: {a: b, deprecated.daemonset.template.generation: '2'}`, ""},
		{`annotations: {deprecated.daemonset.template.generation: '1', a: b}`, ``, `x/a/metadata.annotations: {"a":"b"} → (none)`},
		{`labels: {a: b}`, `labels: {a: c}`, "x/a/metadata.labels.a: b → c"},
	} {
		assert.Equal(t, c.want, kube.DiffObjects(meta("X", c.before), meta("X", c.after)).String(), "%s, %s", c.before, c.after)
	}
	assert.Equal(t, "secret/a/metadata.labels.a: [secret] → [secret]; secret/a/metadata.labels.b: [secret]; secret/a/metadata.labels.c: [secret] → (none)",
		kube.DiffObjects(meta("Secret", "labels: {a: b, c: d}"), meta("Secret", "labels: {a: c, b: x}")).String())
}

// TestWhoseFieldsCount: only those that we applied say whether there is something to take over.
func TestWhoseFieldsCount(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps/a"
	field := func(manager, operation, key string) string {
		return fmt.Sprintf(`{"manager": %q, "operation": %q, "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:%s": {}}}}`, manager, operation, key)
	}
	object := func(entries ...string) string {
		return `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default", "managedFields": [` + strings.Join(entries, ", ") + `]}}`
	}
	theirs, plain, ours, more := field("kubectl", "Apply", "a"), field("homelab", "Update", "a"), field("homelab", "Apply", "a"), field("homelab", "Apply", "b")
	for _, c := range []struct {
		before, after string
		want          kube.Result
	}{
		{object(theirs, plain), object(theirs, plain), kube.Unchanged},
		{object(theirs), object(theirs, ours), kube.Configured},
		{object(plain), object(plain, ours), kube.Configured},
		{object(theirs, plain, ours), object(theirs, plain, more), kube.Configured},
		{object(theirs, plain, ours), object(field("kubectl", "Apply", "z"), ours), kube.Unchanged},
		{object(theirs), object(theirs, field("homelab", "Apply", "a"), more), kube.Configured},
	} {
		client, s := scripted(t, map[string]any{"GET " + path: c.before, "PATCH " + path: c.after})
		changes, err := client.Apply(t.Context(), decode(t, aConfigMap)...)
		require.NoError(t, err)
		assert.Equal(t, []kube.Change{{Ref: kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}, Result: c.want}}, changes)
		seen := s.all()
		assert.Equal(t, []string{"All"}, seen[1].query["dryRun"])
		if c.want == kube.Unchanged {
			assert.Len(t, seen, 2)
			continue
		}
		require.Len(t, seen, 3)
		assert.NotContains(t, seen[2].query, "dryRun")
	}
}

// TestNothingIsSentWhereAnObjectIsNone: all are looked at before the first is applied.
func TestNothingIsSentWhereAnObjectIsNone(t *testing.T) {
	c, s := scripted(t, nil)
	objs := append(decode(t, aConfigMap), &corev1.ConfigMap{})
	_, err := c.Apply(t.Context(), objs...)
	require.ErrorContains(t, err, "ConfigMap object without a name")
	_, err = c.Diff(t.Context(), objs...)
	require.ErrorContains(t, err, "ConfigMap object without a name")
	require.ErrorContains(t, c.Delete(t.Context(), objs...), "ConfigMap object without a name")
	require.ErrorContains(t, c.Get(t.Context(), &corev1.ConfigMap{}), "ConfigMap object without a name")
	require.ErrorContains(t, c.Create(t.Context(), &corev1.ConfigMap{}), "ConfigMap object without a name")
	_, err = c.ServerSideApply(t.Context(), &corev1.ConfigMap{})
	require.ErrorContains(t, err, "ConfigMap object without a name")
	require.ErrorContains(t, c.Annotate(t.Context(), &corev1.ConfigMap{}, nil), "ConfigMap object without a name")
	assert.Empty(t, s.calls())
}

// TestAnUnknownKindIsNamed: by every verb, with what was to be done.
func TestAnUnknownKindIsNamed(t *testing.T) {
	const missing = ": the API server has no kind Plan of x.io/v1: its CustomResourceDefinition is missing or not established yet"
	c, _ := scripted(t, nil)
	o := live(t, "{apiVersion: x.io/v1, kind: Plan, metadata: {name: p}}")
	managed := o.DeepCopy()
	managed.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}})
	for want, do := range map[string]func() error{
		"apply plan p":     func() error { _, err := c.Apply(t.Context(), o); return err },
		"read plan p":      func() error { return c.Get(t.Context(), o) },
		"create plan p":    func() error { return c.Create(t.Context(), o) },
		"annotate plan p":  func() error { return c.Annotate(t.Context(), o, nil) },
		"take over plan p": func() error { return c.Adopt(t.Context(), managed, "helm") },
	} {
		require.EqualError(t, do(), want+missing)
	}
	_, err := c.DryRunApply(t.Context(), o)
	require.EqualError(t, err, "apply plan p"+missing)
	_, err = c.Metadata(t.Context(), kube.RefOf(o))
	require.EqualError(t, err, "read plan p"+missing)
	d, err := c.Diff(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, "plan/p: new ["+missing[2:]+"]", d.String())
}

func TestDiffTellsRefusalsApart(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps/a"
	objs := decode(t, aConfigMap)
	c, _ := scripted(t, map[string]any{"GET " + path: "{}", "PATCH " + path: refusal(422, "data: nothing of that")})
	d, err := c.Diff(t.Context(), objs...)
	require.NoError(t, err)
	assert.Equal(t, "configmap/default/a: live object → wanted object (needs a replacement) [data: nothing of that]", d.String())

	c, _ = scripted(t, map[string]any{"GET " + path: refusal(400, "what?")})
	_, err = c.Diff(t.Context(), objs...)
	require.ErrorIs(t, err, kube.ErrInvalid, "it is not known whether it is there")

	c, _ = scripted(t, map[string]any{"GET " + path: "{}", "PATCH " + path: refusal(403, "you may not")})
	d, err = c.Diff(t.Context(), objs...)
	require.EqualError(t, err, "apply configmap default/a: not allowed: you may not")
	assert.Empty(t, d)
}

// TestGetReadsIntoWhatItIsGiven: typed or not, and says whose answer it cannot read.
func TestGetReadsIntoWhatItIsGiven(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps/a"
	c, _ := scripted(t, map[string]any{"GET " + path: []answer{{body: `{"data": {"k": "v"}}`}, {body: `{"data": {"k": "v"}}`}, {body: `{"data": 5}`}}})
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	require.NoError(t, c.Get(t.Context(), cm))
	assert.Equal(t, map[string]string{"k": "v"}, cm.Data)
	u := live(t, aConfigMap)
	require.NoError(t, c.Get(t.Context(), u))
	assert.Equal(t, map[string]any{"data": map[string]any{"k": "v"}}, u.Object)
	cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	require.ErrorContains(t, c.Get(t.Context(), cm), "read configmap default/a: ")
}

// TestDeleteGoesBackwards: over what is not there, and no further than what is refused.
func TestDeleteGoesBackwards(t *testing.T) {
	objs := decode(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: x.io/v1, kind: Plan, metadata: {name: p}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`)
	const cms = "/api/v1/namespaces/default/configmaps/"
	of := func(s *script) (deleted []string) {
		for _, c := range s.calls() {
			if name, ok := strings.CutPrefix(c, "DELETE "+cms); ok {
				deleted = append(deleted, name)
			}
		}
		return deleted
	}
	c, s := scripted(t, map[string]any{"DELETE " + cms + "a": "{}", "DELETE " + cms + "c": "{}"})
	require.NoError(t, c.Delete(t.Context(), objs...))
	assert.Equal(t, []string{"c", "b", "a"}, of(s))
	c, s = scripted(t, map[string]any{"DELETE " + cms + "b": refusal(409, "no"), "DELETE " + cms + "c": "{}"})
	require.EqualError(t, c.Delete(t.Context(), objs...), "delete configmap default/b: changed by somebody else in the meantime: no")
	assert.Equal(t, []string{"c", "b"}, of(s))
	c, _ = scripted(t, map[string]any{"GET /apis/x.io/v1": refusal(403, "hidden")})
	require.EqualError(t, c.Delete(t.Context(), objs[1]), "ask for the kinds of x.io/v1: not allowed: hidden")
}

// TestStagesFollowEachOther: nothing is looked at before what it needs is there.
func TestStagesFollowEachOther(t *testing.T) {
	c, s := scripted(t, map[string]any{"PATCH /api/v1/namespaces/n": refusal(403, "no")})
	_, err := c.Apply(t.Context(), decode(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: 'n'}}`)...)
	require.ErrorIs(t, err, kube.ErrForbidden)
	assert.Equal(t, []string{"GET /api/v1/namespaces/n", "PATCH /api/v1/namespaces/n"}, s.calls())
}

// TestApplyAnewDeletesOnlyWhatCannotBeChanged: and says all that went wrong.
func TestApplyAnewDeletesOnlyWhatCannotBeChanged(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps/a"
	obj := decode(t, aConfigMap)[0]
	immutable := refusal(422, "data: field is immutable")
	run := func(answers map[string]any) (kube.Change, []string, error) {
		c, s := scripted(t, answers)
		change, err := c.ApplyOrRecreate(t.Context(), obj)
		return change, s.calls(), err
	}
	_, calls, err := run(map[string]any{"GET " + path: "{}", "PATCH " + path: refusal(403, "you may not")})
	require.EqualError(t, err, "apply configmap default/a: not allowed: you may not")
	assert.NotContains(t, calls, "DELETE "+path)

	change, calls, err := run(map[string]any{"GET " + path: "{}", "PATCH " + path: immutable, "DELETE " + path: refusal(403, "nor delete")})
	require.ErrorIs(t, err, kube.ErrInvalid)
	require.ErrorIs(t, err, kube.ErrForbidden)
	assert.Equal(t, []string{"GET " + path, "PATCH " + path, "DELETE " + path}, calls)
	assert.Zero(t, change)

	change, _, err = run(map[string]any{"GET " + path: []answer{{body: "{}"}, refusal(404, "gone")},
		"PATCH " + path: []answer{immutable, refusal(503, "busy")}, "DELETE " + path: "{}"})
	require.ErrorIs(t, err, kube.ErrInvalid)
	require.ErrorIs(t, err, kube.ErrUnreachable)
	assert.Zero(t, change)

	change, calls, err = run(map[string]any{"GET " + path: []answer{{body: "{}"}, refusal(404, "gone")},
		"PATCH " + path: []answer{immutable, {body: "{}"}}, "DELETE " + path: "{}"})
	require.NoError(t, err)
	assert.Equal(t, kube.Configured, change.Result)
	assert.Equal(t, []string{"GET " + path, "PATCH " + path, "DELETE " + path, "GET " + path, "PATCH " + path}, calls)
}

// TestPatchesTouchNothingElse: what is merged, and into which object.
func TestPatchesTouchNothingElse(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps/a"
	c, s := scripted(t, map[string]any{"PATCH " + path: "{}", "PATCH /api/v1/persistentvolumes/pv": "{}"})
	require.NoError(t, c.Annotate(t.Context(), decode(t, aConfigMap)[0], map[string]string{"a": "b", "c": ""}))
	require.NoError(t, c.SetReclaimPolicy(t.Context(), "pv", corev1.PersistentVolumeReclaimDelete))
	seen := s.all()
	require.Len(t, seen, 2)
	assert.JSONEq(t, `{"metadata": {"annotations": {"a": "b", "c": null}}}`, seen[0].body)
	assert.JSONEq(t, `{"spec": {"persistentVolumeReclaimPolicy": "Delete"}}`, seen[1].body)
	for _, r := range seen {
		assert.Equal(t, "application/merge-patch+json", r.header.Get("Content-Type"))
		assert.Equal(t, map[string][]string{"fieldManager": {"homelab"}}, r.query)
	}
	c, _ = scripted(t, map[string]any{"PATCH /api/v1/persistentvolumes/pv": refusal(403, "no")})
	require.EqualError(t, c.SetReclaimPolicy(t.Context(), "pv", "Retain"), "set the reclaim policy of persistentvolume pv: not allowed: no")
}

// TestSingleSteps: what package chart does, under a manager of its own.
func TestSingleSteps(t *testing.T) {
	const cms = "/api/v1/namespaces/default/configmaps"
	first, s := scripted(t, map[string]any{"PATCH " + cms + "/a": `{"data": {"k": "v"}}`, "POST " + cms: []answer{{body: "{}"}, refusal(409, "there already")},
		"GET " + cms + "/a": `{"metadata": {"name": "a"}}`})
	c := first.WithFieldManager("helm")
	obj := decode(t, aConfigMap)[0]
	for _, do := range []func() (*unstructured.Unstructured, error){
		func() (*unstructured.Unstructured, error) { return c.ServerSideApply(t.Context(), obj) },
		func() (*unstructured.Unstructured, error) { return c.DryRunApply(t.Context(), obj) },
		func() (*unstructured.Unstructured, error) { return first.ServerSideApply(t.Context(), obj) },
	} {
		after, err := do()
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"data": map[string]any{"k": "v"}}, after.Object)
	}
	require.NoError(t, c.Create(t.Context(), obj))
	require.ErrorIs(t, c.Create(t.Context(), obj), kube.ErrConflict)
	u, err := c.Metadata(t.Context(), kube.RefOf(live(t, aConfigMap)))
	require.NoError(t, err)
	assert.Equal(t, "a", u.GetName())
	seen := s.all()
	require.Len(t, seen, 6)
	assert.Equal(t, map[string][]string{"fieldManager": {"helm"}, "force": {"true"}}, seen[0].query)
	assert.Equal(t, map[string][]string{"fieldManager": {"helm"}, "force": {"true"}, "dryRun": {"All"}}, seen[1].query)
	assert.Equal(t, []string{"homelab"}, seen[2].query["fieldManager"], "the first client's stays")
	assert.Equal(t, "POST "+cms, seen[3].verb+" "+seen[3].path)
	assert.Equal(t, map[string][]string{"fieldManager": {"helm"}}, seen[3].query)
	assert.Contains(t, seen[3].body, `"name":"a"`)
	assert.Contains(t, seen[5].header.Get("Accept"), "as=PartialObjectMetadata")
}

// TestAdopt: only what one of the named managers set by plain updates of the object itself is taken over.
func TestAdopt(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps/a"
	entry := func(manager string, op metav1.ManagedFieldsOperationType, sub string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: op, Subresource: sub, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:k":{}}}`)}
	}
	of := func(entries ...metav1.ManagedFieldsEntry) *unstructured.Unstructured {
		u := live(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, resourceVersion: '7'}, data: {k: v}}")
		u.SetManagedFields(entries)
		return u
	}
	for _, e := range []metav1.ManagedFieldsEntry{
		entry("kubectl", metav1.ManagedFieldsOperationUpdate, ""),
		entry("helm", metav1.ManagedFieldsOperationApply, ""),
		entry("helm", metav1.ManagedFieldsOperationUpdate, "status"),
	} {
		c, s := scripted(t, nil)
		require.NoError(t, c.Adopt(t.Context(), of(e), "helm", "Helm"))
		assert.Empty(t, s.calls())
	}
	c, s := scripted(t, map[string]any{"PATCH " + path: "{}"})
	u := of(entry("kubectl", metav1.ManagedFieldsOperationUpdate, ""), entry("helm", metav1.ManagedFieldsOperationUpdate, ""))
	before := u.DeepCopy()
	require.NoError(t, c.Adopt(t.Context(), u, "helm"))
	assert.Equal(t, before, u)
	seen := s.all()
	require.Len(t, seen, 1)
	assert.Equal(t, "application/json-patch+json", seen[0].header.Get("Content-Type"))
	var ops []map[string]any
	require.NoError(t, json.Unmarshal([]byte(seen[0].body), &ops))
	assert.Contains(t, seen[0].body, `"manager":"homelab","operation":"Apply"`)
	assert.Contains(t, seen[0].body, `"/metadata/resourceVersion","value":"7"`)

	broken := of(entry("helm", metav1.ManagedFieldsOperationUpdate, ""))
	list := broken.GetManagedFields()
	list[0].FieldsV1 = metav1.NewFieldsV1(`{"x":{}}`)
	broken.SetManagedFields(list)
	require.ErrorContains(t, c.Adopt(t.Context(), broken, "helm"), "take over configmap default/a: ")
}

// TestRestartedIsOnlyWhoReads: a workload whose pods cannot be read is left alone.
func TestRestartedIsOnlyWhoReads(t *testing.T) {
	const apps = "/apis/apps/v1/namespaces/default/"
	c, s := scripted(t, map[string]any{
		"GET " + apps + "deployments": `{"items": [{"metadata": {"name": "odd", "namespace": "default"}, "spec": {"template": {"spec": {"containers": 5}}}},
			{"metadata": {"name": "web", "namespace": "default"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "key"}}]}]}}}}]}`,
		"GET " + apps + "statefulsets": "{}", "GET " + apps + "daemonsets": refusal(403, "no"), "PATCH " + apps + "deployments/web": "{}"})
	refs, err := c.RestartSecretUsers(t.Context(), "default", "key")
	require.ErrorIs(t, err, kube.ErrForbidden)
	assert.Equal(t, []kube.Ref{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "web"}}, refs)
	seen := s.all()
	assert.Equal(t, "PATCH", seen[1].verb)
	assert.Regexp(t, `^{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"20[-0-9T:]*Z"}}}}}$`, seen[1].body)

	c, _ = scripted(t, map[string]any{"GET " + apps + "deployments": `{"items": [
			{"metadata": {"name": "web", "namespace": "default"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "key"}}]}]}}}}]}`,
		"PATCH " + apps + "deployments/web": refusal(403, "no")})
	refs, err = c.RestartSecretUsers(t.Context(), "default", "key")
	require.EqualError(t, err, "restart deployment default/web: not allowed: no")
	assert.Empty(t, refs)
}
