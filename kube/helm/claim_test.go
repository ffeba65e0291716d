package helm

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// TestBuryPending: what was cut off is said to have failed, and how far it was.
func TestBuryPending(t *testing.T) {
	history := []*release.Release{rev(1, release.StatusPendingInstall, "", ""), rev(2, release.StatusDeployed, "", ""), rev(3, release.StatusUninstalling, "", ""), rev(4, release.StatusFailed, "mine", "")}
	c, k := talking(t, map[string]any{"PATCH " + secrets + "/" + recordName("r", 1): "{}", "PATCH " + secrets + "/" + recordName("r", 3): "{}"})
	require.NoError(t, c.failPending(t.Context(), &plan{history: history}))
	assert.Equal(t, []string{secrets + "/" + recordName("r", 1), secrets + "/" + recordName("r", 3)}, k.said("PATCH"))
	assert.Equal(t, "Cut off while pending-install; Cut off while uninstalling; mine", history[0].Info.Description+"; "+history[2].Info.Description+"; "+history[3].Info.Description)
	c, k = talking(t, map[string]any{"PATCH " + secrets + "/" + recordName("r", 1): "403 no"})
	history[0].Info.Status = release.StatusPendingRollback
	require.ErrorIs(t, c.failPending(t.Context(), &plan{history: history}), kube.ErrForbidden)
	assert.Len(t, k.heard, 1)
}

// TestClaim: objects of other owners are not taken over, and the error names the owner; a namespace may be
// shared.
func TestClaim(t *testing.T) {
	marked := func(kind, name, release, ns string) string {
		return asJSON(t, fmt.Sprintf(`{apiVersion: v1, kind: %s, metadata: {name: %s, namespace: web, annotations: {meta.helm.sh/release-name: %q, meta.helm.sh/release-namespace: %q}}}`, kind, name, release, ns))
	}
	objs := func(kind string, names ...string) (out []*unstructured.Unstructured) {
		for _, n := range names {
			out = append(out, thing(t, "{apiVersion: v1, kind: "+kind+", metadata: {name: "+n+", namespace: web}}"))
		}
		return out
	}
	p := &plan{release: chart.Release{Name: "r", Namespace: "web"}}
	c, _ := talking(t, map[string]any{"GET " + configMaps + "/ours": marked("ConfigMap", "ours", "r", "web"), "GET " + configMaps + "/theirs": marked("ConfigMap", "theirs", "s", "web"),
		"GET " + configMaps + "/far": marked("ConfigMap", "far", "r", "other"), "GET " + configMaps + "/bare": marked("ConfigMap", "bare", "", "")})
	one := &revision{objects: objs("ConfigMap", "ours", "new", "theirs", "far", "bare")}
	err := c.claim(t.Context(), p, one)
	require.EqualError(t, err, "configmap web/theirs belongs to release web/s; configmap web/far belongs to release other/r; configmap web/bare is there already, made without Helm: "+
		"remove them, or make them this release's: kubectl label … app.kubernetes.io/managed-by=Helm, and kubectl annotate … meta.helm.sh/release-name=r meta.helm.sh/release-namespace=web")
	require.Len(t, one.made, 1)
	assert.Equal(t, "new", one.made[0].GetName())

	c, _ = talking(t, map[string]any{"GET /api/v1/namespaces/bare": `{"apiVersion": "v1", "kind": "Namespace"}`, "GET /api/v1/namespaces/theirs": marked("Namespace", "theirs", "s", "web")})
	require.NoError(t, c.claim(t.Context(), p, &revision{objects: objs("Namespace", "bare")}))
	require.ErrorContains(t, c.claim(t.Context(), p, &revision{objects: objs("Namespace", "theirs")}), "belongs to release web/s")

	held := strings.Replace(marked("ConfigMap", "ours", "r", "web"), `"metadata":{`, `"metadata":{"resourceVersion":"1","managedFields":[{"manager":"terraform-provider-helm","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}],`, 1)
	c, k := talking(t, map[string]any{"GET " + configMaps + "/ours": held, "PATCH " + configMaps + "/ours": "{}"})
	require.NoError(t, c.claim(t.Context(), p, &revision{objects: objs("ConfigMap", "ours")}))
	assert.Equal(t, []string{configMaps + "/ours"}, k.said("PATCH"), "Helm's fields are taken over")
	c, _ = talking(t, map[string]any{"GET " + configMaps + "/ours": held, "PATCH " + configMaps + "/ours": "403 no"})
	require.ErrorIs(t, c.claim(t.Context(), p, &revision{objects: objs("ConfigMap", "ours")}), kube.ErrForbidden)
	c, _ = talking(t, map[string]any{"GET " + configMaps + "/ours": "403 hidden"})
	require.ErrorIs(t, c.claim(t.Context(), p, &revision{objects: objs("ConfigMap", "ours")}), kube.ErrForbidden)
}

// TestPlace: into the release's namespace, unless an object names one, or its kind has none.
func TestPlace(t *testing.T) {
	c, _ := talking(t, map[string]any{"GET /apis/hid.example/v1": "403 hidden"})
	for manifest, want := range map[string]string{
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}":                   "web",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}": "other",
		"{apiVersion: v1, kind: Namespace, metadata: {name: a, namespace: other}}": "",
		"{apiVersion: none.io/v1, kind: A, metadata: {name: a}}":                   "web",
		"{apiVersion: none.io/v1, kind: A, metadata: {name: a, namespace: other}}": "other",
	} {
		u, err := c.asApplied(t.Context(), thing(t, manifest), "r", "web")
		require.NoError(t, err)
		assert.Equal(t, want, u.GetNamespace(), manifest)
		assert.Equal(t, map[string]string{"app.kubernetes.io/managed-by": "Helm"}, u.GetLabels())
		assert.Equal(t, map[string]string{"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "web"}, u.GetAnnotations())
		assert.True(t, ownedBy(u, "r", "web"))
	}
	u, err := c.asApplied(t.Context(), thing(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {b: c}, annotations: {d: e, helm.sh/resource-policy: keep}}}"), "r", "web")
	require.NoError(t, err)
	assert.Equal(t, "c", u.GetLabels()["b"])
	assert.Equal(t, "e", u.GetAnnotations()["d"])
	assert.True(t, outlivesRelease(u))
	_, err = c.wantedObjects(t.Context(), "{apiVersion: hid.example/v1, kind: A, metadata: {name: a}}", "r", "web")
	require.EqualError(t, err, "release web/r: ask for the kinds of hid.example/v1: not allowed: hidden")
	_, err = c.wantedObjects(t.Context(), "{", "r", "web")
	require.ErrorContains(t, err, "release web/r: manifest, document 1")
	_, err = c.place(context.Background(), &unstructured.Unstructured{Object: map[string]any{}}, "web")
	require.Error(t, err)
	for manifest, is := range map[string]bool{
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 0}}": true, "{apiVersion: batch/v1, kind: Job, metadata: {name: a}}": false,
		"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 0}}": false, "{apiVersion: x/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 0}}": false,
	} {
		assert.Equal(t, is, endsByItself(thing(t, manifest)), manifest)
	}
}

// TestClaimAbandoned: what the release's own Application of Argo CD deployed is taken over when that is gone, and
// nothing else of Argo CD.
func TestClaimAbandoned(t *testing.T) {
	tracked := func(by string) string {
		return asJSON(t, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web, annotations: {argocd.argoproj.io/tracking-id: "%s:/ConfigMap:web/a"}}}`, by))
	}
	const kinds, app = "GET /apis/argoproj.io/v1alpha1", "GET /apis/argoproj.io/v1alpha1/namespaces/argocd/applications/homelab-r"
	served := `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"argoproj.io/v1alpha1","resources":[{"name":"applications","singularName":"application","namespaced":true,"kind":"Application","verbs":["get"]}]}`
	for name, tt := range map[string]struct {
		by, former string
		there      map[string]any
		says       string
	}{
		"gone":           {by: "homelab-r", former: "homelab-r", there: map[string]any{kinds: served}},
		"all gone":       {by: "homelab-r", former: "homelab-r"},
		"there":          {by: "homelab-r", former: "homelab-r", there: map[string]any{kinds: served, app: `{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"homelab-r","namespace":"argocd"}}`}, says: "made without Helm"},
		"cannot be read": {by: "homelab-r", former: "homelab-r", there: map[string]any{kinds: served, app: "403 hidden"}, says: "hidden"},
		"of another":     {by: "homelab-s", former: "homelab-r", says: "made without Helm"},
		"of a longer":    {by: "homelab-r2", former: "homelab-r", says: "made without Helm"},
		"of nobody":      {by: "homelab-r", says: "made without Helm"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]any{"GET " + configMaps + "/a": tracked(tt.by)}
			maps.Copy(answers, tt.there)
			c, _ := talking(t, answers)
			p := &plan{release: chart.Release{Name: "r", Namespace: "web", Former: tt.former}}
			err := c.claim(t.Context(), p, &revision{objects: []*unstructured.Unstructured{thing(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}}")}})
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.says)
		})
	}
}
