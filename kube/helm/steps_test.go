package helm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

const (
	secrets    = "/api/v1/namespaces/web/secrets"
	configMaps = "/api/v1/namespaces/web/configmaps"
)

// TestNamespaces: one that is there stays, one that goes is waited for, and is made again.
func TestNamespaces(t *testing.T) {
	const ns = "/api/v1/namespaces/web"
	synctest.Test(t, func(t *testing.T) {
		c, k := talking(t, map[string]any{"GET " + ns: `{"metadata": {"name": "web"}}`})
		require.NoError(t, c.ensureNamespace(t.Context(), "web"))
		assert.Len(t, k.heard, 1)
		going := `{"metadata": {"name": "web", "deletionTimestamp": "2026-11-22T03:04:05Z"}}`
		c, k = talking(t, map[string]any{"GET " + ns: []string{going, going, going, "404"}, "PATCH " + ns: "{}"})
		require.NoError(t, c.ensureNamespace(t.Context(), "web"))
		assert.Equal(t, []string{ns}, k.said("PATCH"))
		c, _ = talking(t, map[string]any{"GET " + ns: []string{going, "403 hidden"}})
		require.ErrorIs(t, c.ensureNamespace(t.Context(), "web"), kube.ErrForbidden)
	})
}

// TestWrites: what is waited for, what is recreated, and what is an error that tells no secret.
func TestWrites(t *testing.T) {
	const jobs = "/apis/batch/v1/namespaces/web/jobs/j"
	cm := "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: web}}"
	job := "{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: web}}"
	sec := "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: web}}"
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			object  string
			answers map[string]any
			want    string
			heard   []string
		}{
			{cm, map[string]any{"PATCH " + configMaps + "/c": []string{"500 failed calling webhook x", "503 away", "{}"}}, "", []string{"PATCH", "PATCH", "PATCH"}},
			{cm, map[string]any{"PATCH " + configMaps + "/c": "422 immutable"}, "apply configmap web/c: refused as invalid: immutable: delete it and apply it again", []string{"PATCH"}},
			{job, map[string]any{"PATCH " + jobs: []string{"422 field is immutable", "{}"}, "DELETE " + jobs: "{}"}, "", []string{"PATCH", "DELETE", "GET", "PATCH"}},
			{job, map[string]any{"PATCH " + jobs: "422 bad", "DELETE " + jobs: "{}"}, "apply job web/j: refused as invalid: bad", []string{"PATCH", "DELETE", "GET", "PATCH"}},
			{job, map[string]any{"PATCH " + jobs: "422 bad", "DELETE " + jobs: "403 no"}, "delete job web/j: not allowed: no", []string{"PATCH", "DELETE"}},
			{job, map[string]any{"PATCH " + jobs: "403 no"}, "apply job web/j: not allowed: no", []string{"PATCH"}},
			{sec, map[string]any{"PATCH " + secrets + "/s": "422 hunter2"}, "apply secret web/s: the API server refuses it as invalid: its type cannot be changed, and its keys and values must be proper ones", []string{"PATCH"}},
			{sec, map[string]any{"PATCH " + secrets + "/s": "500 hunter2"}, "apply secret web/s: the API server refuses it as invalid: its type cannot be changed, and its keys and values must be proper ones", []string{"PATCH"}},
			{sec, map[string]any{"PATCH " + secrets + "/s": "403 no"}, "apply secret web/s: not allowed: no", []string{"PATCH"}},
			{"{apiVersion: x.io/v1, kind: A, metadata: {name: a}}", nil, "apply a a: the API server has no kind A of x.io/v1: its CustomResourceDefinition is missing or not established yet: install the chart that brings it first", []string{"GET", "GET"}},
		} {
			client, k := talking(t, c.answers)
			err := client.write(t.Context(), thing(t, c.object))
			if c.want == "" {
				require.NoError(t, err, c.object)
			} else {
				require.EqualError(t, err, c.want)
			}
			var verbs []string
			for _, h := range k.heard {
				verb, _, _ := strings.Cut(h, " ")
				verbs = append(verbs, verb)
			}
			assert.Equal(t, c.heard, verbs, "%+v", c)
		}
	})
	assert.False(t, repeats(errors.New("x")))
}

// TestWriteAll: those of one rank at once, the next when they are there, definitions when they are served.
func TestWriteAll(t *testing.T) {
	const crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.b"
	objs, err := objects(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: web}}
---
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: web}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.b}}`)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		defined := `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.b}`
		c, k := talking(t, map[string]any{"PATCH " + crd: "{}", "GET " + crd: []string{asJSON(t, defined+"}"), asJSON(t, defined+`, status: {conditions: [{type: Established, status: "True"}]}}`)},
			"PATCH " + configMaps + "/a": "{}", "PATCH " + configMaps + "/b": "{}", "PATCH /api/v1/namespaces/web/services/s": "{}"})
		require.NoError(t, c.writeAll(t.Context(), objs))
		assert.Equal(t, []string{"PATCH " + crd, "GET " + crd, "GET " + crd}, k.heard[:3])
		assert.ElementsMatch(t, []string{"PATCH " + configMaps + "/a", "PATCH " + configMaps + "/b"}, k.heard[3:5])
		assert.Equal(t, []string{"PATCH /api/v1/namespaces/web/services/s"}, k.heard[5:])
		c, k = talking(t, map[string]any{"PATCH " + crd: "{}", "GET " + crd: "403 no"})
		require.ErrorIs(t, c.writeAll(t.Context(), objs), kube.ErrForbidden)
		assert.Len(t, k.heard, 2)
		c, k = talking(t, map[string]any{"PATCH " + crd: "403 no"})
		require.ErrorIs(t, c.writeAll(t.Context(), objs), kube.ErrForbidden)
		assert.Len(t, k.heard, 1)
	})
}

// record is a revision as it is kept.
func record(t *testing.T, rel *release.Release) string {
	t.Helper()
	s, err := encodeRecord(rel)
	require.NoError(t, err)
	u, err := kube.ToUnstructured(s)
	require.NoError(t, err)
	b, err := u.MarshalJSON()
	require.NoError(t, err)
	return string(b)
}

func rev(version int, status release.Status, description, manifest string) *release.Release {
	return &release.Release{Name: "r", Namespace: "web", Version: version, Manifest: manifest, Info: &release.Info{Status: status, Description: description, LastDeployed: helmtime.Now()}}
}

func records(t *testing.T, rels ...*release.Release) string {
	t.Helper()
	var out []string
	for _, rel := range rels {
		out = append(out, record(t, rel))
	}
	return `{"items": [` + strings.Join(out, ",") + `]}`
}

// TestAwaitOthers: somebody else's Helm is waited for as long as it may work, ours is not.
func TestAwaitOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(rels ...*release.Release) (time.Duration, []string) {
			c, k := talking(t, map[string]any{"GET " + secrets: records(t, rels...)})
			ctx, said := listening(t.Context())
			began := time.Now()
			require.NoError(t, c.awaitOthers(ctx, chart.Release{Name: "r", Namespace: "web"}))
			assert.Equal(t, "labelSelector=owner%3Dhelm%2Cname%3Dr%2Cstatus%21%3Dsuperseded&limit=500", k.queries["GET "+secrets])
			return time.Since(began), said()
		}
		for _, rels := range [][]*release.Release{nil, {rev(1, release.StatusDeployed, "x", "")}, {rev(1, release.StatusPendingInstall, weInstall, "")},
			{rev(1, release.StatusPendingUpgrade, weUpgrade, "")}, {rev(1, release.StatusPendingRollback, weRollBack+"3", "")},
			{rev(1, release.StatusPendingInstall, "theirs", ""), rev(2, release.StatusFailed, "theirs", "")}, {rev(1, release.StatusUninstalling, "theirs", "")}} {
			took, said := wait(rels...)
			assert.Zero(t, took)
			assert.Empty(t, said)
		}
		took, said := wait(rev(2, release.StatusPendingUpgrade, "Preparing upgrade", ""), rev(1, release.StatusDeployed, "x", ""))
		assert.InDelta(t, helmTimeout.Seconds(), took.Seconds(), 2.5)
		assert.Equal(t, []string{"waiting: revision 2 is pending-upgrade by another Helm"}, said)
		assert.Equal(t, 5*time.Minute, helmTimeout)
		c, _ := talking(t, map[string]any{"GET " + secrets: "403 hidden"})
		require.EqualError(t, c.awaitOthers(t.Context(), chart.Release{Name: "r", Namespace: "web"}), "release web/r: list secrets of namespace web: not allowed: hidden")
		c, _ = talking(t, map[string]any{"GET " + secrets: `{"items": [{"metadata": {"name": "odd", "namespace": "web"}}]}`})
		require.ErrorContains(t, c.awaitOthers(t.Context(), chart.Release{Name: "r", Namespace: "web"}), "secret web/odd is not a record of Helm's")
		assert.Equal(t, 10*time.Minute, timeoutOf(chart.Release{}))
		assert.Equal(t, time.Second, timeoutOf(chart.Release{Timeout: time.Second}))
		assert.Equal(t, 10*time.Minute, timeoutOf(chart.Release{Timeout: -1}))
	})
}

// TestRevisionsAreForgotten: the oldest, by number, until five are left.
func TestRevisionsAreForgotten(t *testing.T) {
	for n, gone := range map[int]int{3: 0, 5: 0, 6: 1, 8: 3} {
		answers := map[string]any{}
		var kept, want []string
		for i := range n {
			version := 7 + i // 10 comes after 9
			kept = append([]string{fmt.Sprintf(`{"metadata": {"name": "x", "labels": {"version": "%d"}}}`, version)}, kept...)
			answers["DELETE "+secrets+"/"+recordName("r", version)] = "{}"
			if i < gone {
				want = append(want, secrets+"/sh.helm.release.v1.r.v"+strconv.Itoa(version))
			}
		}
		kept = append(kept, `{"metadata": {"name": "odd", "labels": {"version": "x"}}}`)
		answers["GET "+secrets] = `{"items": [` + strings.Join(kept, ",") + `]}`
		c, k := talking(t, answers)
		require.NoError(t, c.supersede(t.Context(), &plan{release: chart.Release{Name: "r", Namespace: "web"}}, 99))
		assert.Equal(t, want, k.said("DELETE"), n)
	}
	c, _ := talking(t, map[string]any{"GET " + secrets: "403 hidden"})
	require.ErrorIs(t, c.supersede(t.Context(), &plan{release: chart.Release{Name: "r", Namespace: "web"}}, 99), kube.ErrForbidden)
	c, k := talking(t, nil)
	require.NoError(t, c.deleteRecords(t.Context(), "web", "r", 1, 2), "what is gone is forgotten")
	assert.Len(t, k.heard, 2)
	c, k = talking(t, map[string]any{"DELETE " + secrets + "/" + recordName("r", 1): "403 no"})
	require.ErrorIs(t, c.deleteRecords(t.Context(), "web", "r", 1, 2), kube.ErrForbidden)
	assert.Len(t, k.heard, 1)

	// Only what was deployed before is superseded.
	history := []*release.Release{rev(1, release.StatusFailed, "", ""), rev(2, release.StatusDeployed, "was", ""), rev(3, release.StatusDeployed, "", "")}
	c, k = talking(t, map[string]any{"GET " + secrets: `{"items": []}`, "PATCH " + secrets + "/" + recordName("r", 2): []string{"503 away", "{}"}})
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, c.supersede(t.Context(), &plan{release: chart.Release{Name: "r", Namespace: "web"}, history: history}, 3))
	})
	assert.Equal(t, []string{secrets + "/" + recordName("r", 2), secrets + "/" + recordName("r", 2)}, k.said("PATCH"))
	assert.Equal(t, release.StatusSuperseded, history[1].Info.Status)
	assert.Equal(t, "was", history[1].Info.Description)
}

// TestOpen: a revision is begun by one only.
func TestOpen(t *testing.T) {
	for answer, want := range map[string]string{"{}": "", "409 there": "release web/r: another run started revision 2 at the same time: run it again",
		"403 no": "release web/r: begin revision 2: create secret web/sh.helm.release.v1.r.v2: not allowed: no"} {
		c, _ := talking(t, map[string]any{"POST " + secrets: answer})
		err := c.createRecord(t.Context(), rev(2, release.StatusPendingInstall, "", ""))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
	c, _ := talking(t, nil)
	bad := rev(1, release.StatusDeployed, "", "")
	bad.Config = map[string]any{"f": func() {}}
	require.ErrorContains(t, c.createRecord(t.Context(), bad), "its record: ")
	require.ErrorContains(t, c.note(t.Context(), bad, release.StatusFailed, ""), "its record: ")
}
