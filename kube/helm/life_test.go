package helm_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

// life is a chart that a test writes, and its release.
type life struct {
	dir string
	c   *helm.Client
	k   *kube.Client
	r   chart.Release
}

func newLife(t *testing.T, k *kube.Client, files map[string]string) life {
	t.Helper()
	l := life{dir: t.TempDir(), k: k, r: chart.Release{Name: "r", Namespace: "web", Chart: "own", Version: "1.0.0", Timeout: time.Minute}}
	l.c = helm.NewClient(k, helm.Source{Folder: l.dir, Offline: true})
	l.write(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: own\nversion: 1.0.0\n"})
	l.write(t, files)
	return l
}

// write changes files of the chart; one without text goes away.
func (l life) write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(l.dir, "own", name)
		if text == "" {
			require.NoError(t, os.Remove(path))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

func (l life) look(t *testing.T) (helm.State, string) {
	t.Helper()
	s, err := l.c.Observe(t.Context(), l.r)
	require.NoError(t, err)
	return s, s.Diff().String()
}

func (l life) apply(t *testing.T) {
	t.Helper()
	require.NoError(t, l.c.Apply(t.Context(), l.r))
}

// there returns the names of the ConfigMaps.
func (l life) there(t *testing.T) (names []string) {
	t.Helper()
	all, err := l.k.List(t.Context(), "v1", "ConfigMap", "web", "")
	require.NoError(t, err)
	for _, u := range all {
		if u.GetName() != "kube-root-ca.crt" {
			names = append(names, u.GetName())
		}
	}
	return names
}

// records returns the revisions that are kept: number, status and description.
func (l life) records(t *testing.T) string {
	t.Helper()
	all, err := l.k.List(t.Context(), "v1", "Secret", "web", "owner=helm")
	require.NoError(t, err)
	var out []string
	for _, u := range all {
		data, _, err := unstructured.NestedString(u.Object, "data", "release")
		require.NoError(t, err)
		rel := unpacked(t, data)
		out = append(out, fmt.Sprintf("%d %s %s", rel.Version, rel.Info.Status, rel.Info.Description))
		assert.Equal(t, rel.Info.Status, u.GetLabels()["status"])
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// outlivesRelease is what a test reads of a record.
type outlivesRelease struct {
	Version int
	Info    struct {
		Status, Description string
	}
}

func unpacked(t *testing.T, data string) (rel outlivesRelease) {
	t.Helper()
	inner, err := base64.StdEncoding.DecodeString(data)
	require.NoError(t, err)
	packed, err := base64.StdEncoding.DecodeString(string(inner))
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(z).Decode(&rel))
	return rel
}

func withoutSecrets(diff string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(diff, "; "), func(d string) bool { return strings.HasPrefix(d, "secret/") }), "; ")
}

const oneMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}, data: {text: {{ .Values.text | default "x" }}}}`

func mapped(name string) string { return strings.Replace(oneMap, "NAME", name, 1) }

// TestChartsWithoutDefinitions: are installed, and upgraded when their files change, though their version does not.
func TestChartsWithoutDefinitions(t *testing.T) {
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, _ *func(*http.Request) error) {
		l := newLife(t, k, map[string]string{"templates/a.yaml": mapped("a"), "templates/b.yaml": mapped("b"),
			"templates/s.yaml": `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {drawn: {{ randAlphaNum 9 }}, first: "{{ .Release.IsInstall }} {{ .Release.Revision }}"}}`})
		l.apply(t)
		assert.ElementsMatch(t, []string{"a", "b"}, l.there(t))
		assert.Equal(t, "1 deployed Install complete", l.records(t))
		l.write(t, map[string]string{"README.md": "more"})
		s, diff := l.look(t)
		assert.Empty(t, diff, "it renders the same")
		assert.Equal(t, "own-1.0.0", s.Chart)
		assert.Equal(t, 1, s.Revision)
		l.write(t, map[string]string{"templates/b.yaml": "", "templates/c.yaml": mapped("c"), "templates/a.yaml": strings.Replace(mapped("a"), "text:", "new: thing, text:", 1)})
		_, diff = l.look(t)
		assert.Equal(t, "manifest: as it was rendered → as it renders now [the chart's files changed, or what the cluster serves]; "+
			"configmap/web/a/data.new: thing; configmap/web/c: new; configmap/web/b: obsolete → (none)", withoutSecrets(diff))
		l.apply(t)
		assert.ElementsMatch(t, []string{"a", "c"}, l.there(t))
		assert.Equal(t, "1 superseded Install complete, 2 deployed Upgrade complete", l.records(t))
		l.write(t, map[string]string{"README.md": "still more"})
		s, diff = l.look(t)
		assert.Empty(t, diff)
		assert.Equal(t, 2, s.Revision)
	})
}

// TestWhatIsKept: stays when a chart no longer has it, and so does what is another's by now.
func TestWhatIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, _ *func(*http.Request) error) {
		keep := strings.Replace(mapped("keep"), "name: keep", "name: keep, annotations: {helm.sh/resource-policy: keep}", 1)
		l := newLife(t, k, map[string]string{"templates/a.yaml": mapped("a"), "templates/keep.yaml": keep, "templates/lost.yaml": mapped("lost"), "templates/gone.yaml": mapped("gone")})
		l.apply(t)
		require.NoError(t, k.Annotate(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "lost"}}, map[string]string{"meta.helm.sh/release-name": "other"}))
		require.NoError(t, k.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "gone"}}))
		l.write(t, map[string]string{"templates/keep.yaml": "", "templates/lost.yaml": "", "templates/gone.yaml": ""})
		_, diff := l.look(t)
		assert.Equal(t, "manifest: as it was rendered → as it renders now [the chart's files changed, or what the cluster serves]", diff)
		l.apply(t)
		assert.ElementsMatch(t, []string{"a", "keep", "lost"}, l.there(t))
		require.NoError(t, l.c.Uninstall(t.Context(), "web", "r"))
		assert.ElementsMatch(t, []string{"keep", "lost"}, l.there(t))
	})
}

// TestChartsThatAskWhatTheyBring: are rendered again when it is there; where that makes no
// difference, nothing is to do.
func TestChartsThatAskWhatTheyBring(t *testing.T) {
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec: {group: example.com, scope: Namespaced, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}
`
	asks := `{{ if .Capabilities.APIVersions.Has "example.com/v1/Thing" }}` + mapped("seen") + `{{ end }}`
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, before *func(*http.Request) error) {
		l := newLife(t, k, map[string]string{"templates/crd.yaml": crd, "templates/a.yaml": mapped("a") + "\n---\n" + asks})
		l.apply(t)
		assert.ElementsMatch(t, []string{"a"}, l.there(t))
		_, diff := l.look(t)
		assert.Contains(t, diff, "configmap/web/seen: new")
		l.apply(t)
		assert.ElementsMatch(t, []string{"a", "seen"}, l.there(t))
		s, diff := l.look(t)
		assert.Empty(t, diff)
		assert.Equal(t, 2, s.Revision)
		require.NoError(t, l.c.Uninstall(t.Context(), "web", "r"))
		assert.Empty(t, l.there(t))
		asked := 0
		*before = func(r *http.Request) error {
			if strings.HasSuffix(r.URL.Path, "/configmaps/asked") {
				asked++
			}
			return nil
		}
		l.write(t, map[string]string{"templates/a.yaml": `{{ $_ := lookup "v1" "ConfigMap" "web" "asked" }}` + mapped("a") + `{{ if .Capabilities.APIVersions.Has "example.com/v1/Thing" }}# {{ end }}`})
		l.apply(t)
		assert.Greater(t, asked, 1, "rendered for the install, and again when its definition is there")
		asked = 0
		s, diff = l.look(t)
		assert.Empty(t, diff)
		assert.Zero(t, asked, "it is known to render the same")
		l.apply(t)
		again, _ := l.look(t)
		assert.Equal(t, s.Revision, again.Revision)
	})
}

// TestHooksOfEachEvent: of an install, an upgrade, a rollback and an uninstall, each in its turn.
func TestHooksOfEachEvent(t *testing.T) {
	var hooks []string
	for _, event := range []string{"pre-install", "post-install", "pre-upgrade", "post-upgrade", "pre-rollback", "post-rollback", "pre-delete", "post-delete"} {
		hooks = append(hooks, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+event+", annotations: {helm.sh/hook: "+event+"}}}")
	}
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, _ *func(*http.Request) error) {
		l := newLife(t, k, map[string]string{"templates/h.yaml": strings.Join(hooks, "\n---\n"), "templates/a.yaml": mapped("a")})
		ran := func(events ...string) {
			t.Helper()
			var run []string
			for _, name := range l.there(t) {
				if name != "a" {
					run = append(run, name)
				}
			}
			assert.ElementsMatch(t, events, run)
			for _, name := range run {
				require.NoError(t, k.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}}))
			}
		}
		l.apply(t)
		ran("pre-install", "post-install")
		l.r.Values = map[string]any{"text": "more"}
		l.apply(t)
		ran("pre-upgrade", "post-upgrade")
		l.write(t, map[string]string{"templates/b.yaml": `{apiVersion: v1, kind: Service, metadata: {name: b}, spec: {typo: 1}}`})
		require.Error(t, l.c.Apply(t.Context(), l.r))
		ran("pre-upgrade", "pre-rollback", "post-rollback")
		assert.Regexp(t, "^1 superseded Install complete, 2 superseded Upgrade complete, 3 failed Failed: .*typo.*, 4 deployed Rollback by homelab to 2$", l.records(t))
		require.NoError(t, l.c.Uninstall(t.Context(), "web", "r"))
		ran("pre-delete", "post-delete")
		assert.Empty(t, l.records(t))
	})
}

// TestCutOff: a run that ends changes nothing any more; the next one goes on from there.
func TestCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, before *func(*http.Request) error) {
		l := newLife(t, k, map[string]string{"templates/a.yaml": mapped("a"), "templates/b.yaml": mapped("b")})
		cut := func(path string) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			*before = func(r *http.Request) error {
				if strings.HasSuffix(r.URL.Path, path) && r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" {
					cancel()
				}
				return r.Context().Err()
			}
			defer func() { *before = func(*http.Request) error { return nil } }()
			return l.c.Apply(ctx, l.r)
		}
		err := cut("/configmaps/a")
		require.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, "release web/r: cut off: ")
		s, diff := l.look(t)
		assert.Equal(t, "own-1.0.0 [revision 1 is pending-install: it was interrupted, and is installed again]", diff)
		assert.Equal(t, helm.State{Chart: "own-1.0.0", Revision: 1, Status: "pending-install", Changes: s.Changes}, s)
		l.apply(t)
		s, diff = l.look(t)
		assert.Empty(t, diff)
		assert.Equal(t, 2, s.Revision)

		l.r.Values = map[string]any{"text": "more"}
		require.ErrorIs(t, cut("/configmaps/b"), context.Canceled)
		s, diff = l.look(t)
		assert.True(t, s.Installed)
		assert.Equal(t, 3, s.Revision)
		assert.Contains(t, diff, "status: pending-upgrade → deployed [it was interrupted, and is installed again]; values/text: more; ")
		l.apply(t)
		_, diff = l.look(t)
		assert.Empty(t, diff)
		require.ErrorIs(t, func() error { l.r.Values = nil; return cut("/configmaps/b") }(), context.Canceled)
		require.NoError(t, l.c.Uninstall(t.Context(), "web", "r"))
		assert.Empty(t, l.there(t))
		s, _ = l.look(t)
		assert.Zero(t, s.Revision)
	})
}

// TestUndoThatFails: says how things stand then.
func TestUndoThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, before *func(*http.Request) error) {
		l := newLife(t, k, map[string]string{"templates/a.yaml": mapped("a"), "templates/b.yaml": `{apiVersion: v1, kind: Service, metadata: {name: b}, spec: {typo: 1}}`})
		fail := func(rules ...string) *helm.FailedError {
			t.Helper()
			*before = func(r *http.Request) error {
				for _, rule := range rules {
					verb, path, _ := strings.Cut(rule, " ")
					if r.Method == verb && strings.HasSuffix(r.URL.Path, path) {
						return errRefused
					}
				}
				return nil
			}
			defer func() { *before = func(*http.Request) error { return nil } }()
			err := l.c.Apply(t.Context(), l.r)
			var failed *helm.FailedError
			require.ErrorAs(t, err, &failed)
			assert.Contains(t, failed.Err.Error(), "typo")
			assert.Equal(t, failed.Undo != nil, errors.Is(err, kube.ErrForbidden))
			if failed.Undo == nil {
				assert.Len(t, failed.Unwrap(), 1)
				assert.Equal(t, "release web/r: "+failed.Err.Error()+": "+failed.After, err.Error())
			} else {
				assert.Len(t, failed.Unwrap(), 2)
				assert.Equal(t, "release web/r: "+failed.Err.Error()+": "+failed.After+": "+failed.Undo.Error(), err.Error())
			}
			return failed
		}
		assert.Equal(t, "the installed objects were removed again", fail().After)
		assert.Empty(t, l.there(t))
		assert.Equal(t, "the installed objects could not be removed", fail("DELETE /configmaps/a").After)
		assert.Equal(t, []string{"a"}, l.there(t))
		assert.Equal(t, "the previous state could not be restored", fail("PATCH .v2").After)
		l.write(t, map[string]string{"templates/b.yaml": mapped("b")})
		l.apply(t)
		s, _ := l.look(t)
		deployed := s.Revision

		l.write(t, map[string]string{"templates/a.yaml": mapped("c"), "templates/b.yaml": `{apiVersion: v1, kind: Service, metadata: {name: b}, spec: {typo: 1}}`})
		failed := fail()
		assert.Regexp(t, `^revision \d was restored$`, failed.After)
		assert.ElementsMatch(t, []string{"a", "b"}, l.there(t))
		for _, rule := range []string{"DELETE /configmaps/c", "PATCH /configmaps/b"} {
			failed = fail(rule)
			assert.Regexp(t, `^revision \d could not be restored$`, failed.After)
		}
		s, _ = l.look(t)
		assert.Greater(t, s.Revision, deployed)
		assert.Equal(t, "failed", s.Status)
		l.write(t, map[string]string{"templates/b.yaml": mapped("b")})
		l.apply(t)
		_, diff := l.look(t)
		assert.Empty(t, diff)
		assert.ElementsMatch(t, []string{"b", "c"}, l.there(t))
	})
}

// TestWhatCannotBeWorkedOut: a change that the API server refuses is told as one, and why.
func TestWhatCannotBeWorkedOut(t *testing.T) {
	const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {backoffLimit: 1, suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: {{ .Values.image | default "one" }}}]}}}}`
	const web = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {paused: {{ .Values.paused }}, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: d}]}}}}`
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, before *func(*http.Request) error) {
		l := newLife(t, k, map[string]string{"templates/a.yaml": mapped("a"), "templates/d.yaml": web, "values.yaml": "paused: true\n", "templates/s.yaml": `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: v}}`})
		l.apply(t)
		l.r.Values = map[string]any{"paused": false}
		require.NoError(t, k.Annotate(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a"}}, map[string]string{"mine": "kept"}))
		_, diff := l.look(t)
		assert.Equal(t, "values/paused: false; deployment/web/d/spec.paused: true → (none)", diff, "what is paused is ready, and others' annotations are no difference")
		err := l.c.Apply(t.Context(), l.r)
		require.ErrorContains(t, err, "not ready within 1m0s: still waiting: deployment web/d: ")

		l.r.Values = nil
		l.apply(t)
		l.write(t, map[string]string{"templates/j.yaml": job})
		l.r.Timeout = time.Second
		_, diff = l.look(t)
		assert.Contains(t, diff, "job/web/j: new")
		*before = func(r *http.Request) error { return nil }
	})
}
