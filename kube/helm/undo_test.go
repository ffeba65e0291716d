package helm

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// owned is an object of release r as the API server has it.
func owned(t *testing.T, kind, name string) string {
	t.Helper()
	return asJSON(t, "{apiVersion: v1, kind: "+kind+", metadata: {name: "+name+", namespace: web, annotations: {meta.helm.sh/release-name: r, meta.helm.sh/release-namespace: web}}}")
}

func configMap(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	return thing(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+", namespace: web}}")
}

// TestTakeBack: of a first install goes what it made, and its hooks' Jobs and Pods; other hooks stay.
func TestTakeBack(t *testing.T) {
	hook := func(kind, version, name string) *release.Hook {
		return &release.Hook{Name: name, Kind: kind, Path: name, Manifest: "{apiVersion: " + version + ", kind: " + kind + ", metadata: {name: " + name + "}}"}
	}
	const jobs, pods = "/apis/batch/v1/namespaces/web/jobs/j", "/api/v1/namespaces/web/pods/p"
	p := &plan{release: chart.Release{Name: "r", Namespace: "web"}}
	rel := rev(1, release.StatusFailed, "", "")
	rel.Hooks = []*release.Hook{hook("ConfigMap", "v1", "stays"), hook("Job", "batch/v1", "j"), hook("Secret", "v1", "stays"), hook("Pod", "v1", "p")}
	answers := func(more ...string) map[string]any {
		out := map[string]any{"GET " + configMaps + "/made": []string{owned(t, "ConfigMap", "made"), "{}", "404"}, "DELETE " + configMaps + "/made": "{}",
			"GET " + jobs: []string{"{}", "404"}, "DELETE " + jobs: "{}", "GET " + pods: []string{"{}", "404"}, "DELETE " + pods: "{}",
			"GET " + secrets: `{"items": [{"metadata": {"name": "x", "labels": {"version": "1"}}}, {"metadata": {"name": "x", "labels": {"version": "2"}}}]}`}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	made := &revision{record: rel, made: []*unstructured.Unstructured{configMap(t, "made")}}
	synctest.Test(t, func(t *testing.T) {
		c, k := talking(t, answers())
		require.NoError(t, c.removeInstalled(t.Context(), p, made))
		assert.Equal(t, []string{configMaps + "/made", jobs, pods, secrets + "/" + recordName("r", 1), secrets + "/" + recordName("r", 2)}, k.said("DELETE"))
		assert.NotContains(t, k.heard, "GET "+configMaps+"/stays")
		c, k = talking(t, answers("DELETE "+jobs, "403 no"))
		require.ErrorIs(t, c.removeInstalled(t.Context(), p, made), kube.ErrForbidden)
		assert.Equal(t, []string{configMaps + "/made", jobs, pods}, k.said("DELETE"), "the rest goes all the same, and the record stays")
		c, _ = talking(t, answers("GET "+secrets, "403 no"))
		require.ErrorIs(t, c.removeInstalled(t.Context(), p, made), kube.ErrForbidden)
		rel.Hooks[1].Manifest = "{"
		c, _ = talking(t, answers())
		require.ErrorContains(t, c.removeInstalled(t.Context(), p, made), "manifest, document 1")
	})
}

// TestRollBack: a revision of its own, which takes what the failed one brought away again.
func TestRollBack(t *testing.T) {
	const old = "{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}"
	setup := func(more ...string) (*Client, *talk, *plan, *revision) {
		out := map[string]any{"POST " + secrets: "{}", "PATCH " + secrets + "/" + recordName("r", 4): "{}", "PATCH " + secrets + "/" + recordName("r", 2): "{}", "GET " + secrets: `{"items": []}`,
			"PATCH " + configMaps + "/old": "{}", "GET " + configMaps + "/new": []string{owned(t, "ConfigMap", "new"), "{}", "404"}, "DELETE " + configMaps + "/new": "{}"}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		deployed := rev(2, release.StatusDeployed, "was", old)
		deployed.Labels = map[string]string{"createdAt": "1", "mine": "kept"}
		c, k := talking(t, out)
		return c, k, &plan{release: chart.Release{Name: "r", Namespace: "web"}, deployed: deployed, history: []*release.Release{deployed}},
			&revision{record: rev(3, release.StatusFailed, "", ""), objects: []*unstructured.Unstructured{configMap(t, "old"), configMap(t, "new")}}
	}
	synctest.Test(t, func(t *testing.T) {
		c, k, p, failed := setup()
		require.NoError(t, c.rollBack(t.Context(), p, failed))
		assert.Equal(t, []string{configMaps + "/new"}, k.said("DELETE"))
		assert.Equal(t, []string{configMaps + "/old", secrets + "/" + recordName("r", 4), secrets + "/" + recordName("r", 2)}, k.said("PATCH"))
		assert.Contains(t, k.bodies["POST "+secrets], `"mine":"kept"`)
		assert.NotContains(t, k.bodies["POST "+secrets], `"createdAt":"1"`)
		assert.Contains(t, k.bodies["POST "+secrets], `"status":"pending-rollback"`)
		assert.Contains(t, k.bodies["PATCH "+secrets+"/"+recordName("r", 4)], `"status":"deployed"`)
		assert.Equal(t, map[string]string{"createdAt": "1", "mine": "kept"}, map[string]string{"createdAt": p.deployed.Labels["createdAt"], "mine": p.deployed.Labels["mine"]})
		for rule, writes := range map[string]int{"GET " + configMaps + "/old": 0, "POST " + secrets: 0, "PATCH " + configMaps + "/old": 2, "PATCH " + secrets + "/" + recordName("r", 4): 2} {
			c, k, p, failed = setup(rule, "403 no")
			require.ErrorIs(t, c.rollBack(t.Context(), p, failed), kube.ErrForbidden, rule)
			assert.Len(t, k.said("PATCH"), writes, rule)
		}
		c, k, p, failed = setup("PATCH "+configMaps+"/old", "403 no")
		require.Error(t, c.rollBack(t.Context(), p, failed))
		assert.Contains(t, k.bodies["PATCH "+secrets+"/"+recordName("r", 4)], `"status":"failed"`)
		c, _, p, failed = setup()
		p.deployed.Manifest = "{"
		require.ErrorContains(t, c.rollBack(t.Context(), p, failed), "manifest, document 1")
	})
}

// TestRemove: what definitions define goes first, the definitions last, and of others' nothing.
func TestRemove(t *testing.T) {
	const crd, gadget = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.test.example.com", "/apis/test.example.com/v1/namespaces/web/gadgets/g"
	objs, err := objects(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.test.example.com}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: web}}
---
{apiVersion: test.example.com/v1, kind: Gadget, metadata: {name: g, namespace: web}}`)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]any{}
		for _, path := range []string{crd, gadget, configMaps + "/a", configMaps + "/b"} {
			answers["GET "+path], answers["DELETE "+path] = []string{"{}", "404"}, "{}"
		}
		c, k := talking(t, answers)
		ctx, said := listening(t.Context())
		require.NoError(t, c.remove(ctx, objs))
		assert.Equal(t, []string{gadget, configMaps + "/b", configMaps + "/a", crd}, k.said("DELETE"))
		assert.Equal(t, "removing customresourcedefinition gadgets.test.example.com; configmap web/a; configmap web/b; and 1 more", said()[0])
		for rule, deleted := range map[string]int{"DELETE " + gadget: 1, "DELETE " + configMaps + "/b": 2, "GET " + crd: 0} {
			for _, path := range []string{crd, gadget, configMaps + "/a", configMaps + "/b"} {
				answers["GET "+path], answers["DELETE "+path] = []string{"{}", "404"}, "{}"
			}
			answers[rule] = "403 no"
			c, k = talking(t, answers)
			require.ErrorIs(t, c.remove(t.Context(), objs), kube.ErrForbidden)
			assert.Len(t, k.said("DELETE"), deleted)
		}
	})
	kept := configMap(t, "k1")
	kept.SetAnnotations(map[string]string{notePolicy: policyKeep})
	answers := map[string]any{"GET " + configMaps + "/k1": owned(t, "ConfigMap", "k1"), "GET " + configMaps + "/k2": strings.Replace(owned(t, "ConfigMap", "k2"), `"meta.helm.sh/release-name"`, `"helm.sh/resource-policy":"keep","meta.helm.sh/release-name"`, 1),
		"GET " + configMaps + "/theirs": `{"metadata": {}}`}
	c, k := talking(t, answers)
	require.NoError(t, c.removeOurs(t.Context(), rev(1, release.StatusFailed, "", ""), []*unstructured.Unstructured{kept, configMap(t, "k2"), configMap(t, "theirs"), configMap(t, "gone")}))
	assert.Empty(t, k.said("DELETE"))
	assert.Len(t, k.heard, 4)
	c, _ = talking(t, map[string]any{"GET " + configMaps + "/k1": "403 no"})
	require.ErrorIs(t, c.removeOurs(t.Context(), rev(1, release.StatusFailed, "", ""), []*unstructured.Unstructured{kept}), kube.ErrForbidden)
}

// TestObsolete: what the revisions from the deployed one on have, once, and is no longer wanted.
func TestObsolete(t *testing.T) {
	maps := func(names ...string) string {
		var out []string
		for _, n := range names {
			out = append(out, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+n+"}}")
		}
		return strings.Join(out, "\n---\n")
	}
	c, _ := talking(t, nil)
	deployed := rev(2, release.StatusDeployed, "", maps("b", "c"))
	p := &plan{release: chart.Release{Name: "r", Namespace: "web"}, history: []*release.Release{rev(1, release.StatusFailed, "", maps("a")), deployed, rev(3, release.StatusFailed, "", maps("c", "d", "wanted"))}}
	names := func() (out []string) {
		objs, err := c.obsolete(t.Context(), p, []*unstructured.Unstructured{configMap(t, "wanted")})
		require.NoError(t, err)
		for _, u := range objs {
			out = append(out, u.GetName())
		}
		return out
	}
	assert.Equal(t, []string{"a", "b", "c", "d"}, names())
	p.deployed = deployed
	assert.Equal(t, []string{"b", "c", "d"}, names())
	deployed.Manifest = "{"
	_, err := c.obsolete(t.Context(), p, nil)
	require.Error(t, err)
	for _, same := range []bool{true, false} {
		p.same, p.last, p.next = same, deployed, &renderedChart{manifest: maps("x")}
		_, err = c.survey(t.Context(), p)
		require.Error(t, err)
		require.Error(t, c.repair(t.Context(), p))
	}
	p.same, p.history = false, []*release.Release{rev(9, release.StatusFailed, "", "{")}
	deployed.Manifest = maps("x")
	_, err = c.survey(t.Context(), p)
	require.Error(t, err)
}

// TestDefine: a definition is read only where it may not be as it should be, and written only then.
func TestDefine(t *testing.T) {
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.b"
	const text = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a.b\n"
	ch := inMemory("top", nil)
	all, err := definitions(withCRD(ch, text))
	require.NoError(t, err)
	d := all[0]
	is := func(digest, manager string) string {
		return `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b", "annotations": {"` + noteApplied + `": "` + digest +
			`"}, "managedFields": [{"manager": "` + manager + `", "operation": "Apply", "apiVersion": "apiextensions.k8s.io/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:x": {}}}}]}, "status": {"conditions": [{"type": "Established", "status": "True"}]}}`
	}
	for name, c := range map[string]struct {
		answers map[string]any
		heard   []string
		want    error
	}{
		"as it should be":      {map[string]any{"GET " + path: is(d.digest, manager)}, []string{"GET"}, nil},
		"missing":              {map[string]any{"GET " + path: []string{"404", is(d.digest, manager)}, "PATCH " + path: "{}"}, []string{"GET", "PATCH", "GET"}, nil},
		"of another text":      {map[string]any{"GET " + path: is("other", manager), "TRY " + path: "{}", "PATCH " + path: "{}"}, []string{"GET", "GET", "TRY", "PATCH", "GET"}, nil},
		"touched":              {map[string]any{"GET " + path: is(d.digest, "kubectl"), "TRY " + path: "{}", "PATCH " + path: "{}"}, []string{"GET", "GET", "TRY", "PATCH", "GET"}, nil},
		"hidden":               {map[string]any{"GET " + path: "403 no"}, []string{"GET"}, kube.ErrForbidden},
		"hidden by then":       {map[string]any{"GET " + path: []string{is("other", manager), "403 no"}}, []string{"GET", "GET"}, kube.ErrForbidden},
		"not to be written":    {map[string]any{"GET " + path: "404", "PATCH " + path: "403 no"}, []string{"GET", "PATCH"}, kube.ErrForbidden},
		"not to be taken over": {map[string]any{"GET " + path: strings.Replace(is("other", "helm"), `"Apply"`, `"Update"`, 1), "TRY " + path: "{}", "PATCH " + path: "403 no"}, []string{"GET", "GET", "TRY", "PATCH"}, kube.ErrForbidden},
	} {
		client, k := talking(t, c.answers)
		err := client.define(t.Context(), all)
		if c.want == nil {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, c.want, name)
		}
		var verbs []string
		for _, h := range k.heard {
			verb, _, _ := strings.Cut(h, " ")
			verbs = append(verbs, verb)
		}
		assert.Equal(t, c.heard, verbs, name)
		if c.heard[len(c.heard)-1] == "GET" && len(c.heard) > 2 {
			assert.Contains(t, k.bodies["PATCH "+path], `"`+noteApplied+`":"`+d.digest+`"`, name)
		}
		if k.bodies["TRY "+path] != "" && name == "of another text" {
			assert.Contains(t, k.bodies["TRY "+path], `"`+noteApplied+`":"other"`, "the digest alone does not count as a difference")
		}
	}
	bad := definition{ref: d.ref, file: "f", text: []byte("{")}
	for _, first := range []string{"404", is("other", manager)} {
		c, _ := talking(t, map[string]any{"GET " + path: first})
		require.ErrorContains(t, c.define(context.Background(), []definition{bad}), "f: manifest, document 1")
	}
}
