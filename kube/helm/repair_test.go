package helm_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/helm"
)

const thingDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: NAME.example.com}
spec: {group: example.com, scope: Namespaced, names: {plural: NAME, kind: KIND}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: ours, x-kubernetes-preserve-unknown-fields: true}}}]}
`

func defined(name, kind string) string {
	return strings.NewReplacer("NAME", name, "KIND", kind).Replace(thingDefinition)
}

// edit applies a manifest as a person does.
func edit(t *testing.T, k *kube.Client, manifest string) {
	t.Helper()
	objs, err := kube.Decode([]byte(manifest))
	require.NoError(t, err)
	_, err = k.WithFieldManager("kubectl-edit").Apply(t.Context(), objs...)
	require.NoError(t, err)
}

// TestWhatPeopleChangeIsPutRight: objects and definitions, those of templates and those of the crds
// folder, each by one write, and nothing else.
func TestWhatPeopleChangeIsPutRight(t *testing.T) {
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, before *func(*http.Request) error) {
		l := newLife(t, k, map[string]string{"crds/c.yaml": defined("folders", "Folder") + "---" + defined("pairs", "Pair"), "templates/t.yaml": defined("things", "Thing"), "templates/a.yaml": mapped("a"), "templates/b.yaml": mapped("b")})
		l.apply(t)
		var written []string
		count := func(r *http.Request) error {
			if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" {
				written = append(written, r.Method+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
			}
			return nil
		}
		*before = count
		l.apply(t)
		assert.Empty(t, written)
		edit(t, k, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}, data: {text: other}}\n---"+
			strings.Replace(defined("things", "Thing"), "ours", "theirs", 1)+"---"+strings.Replace(defined("folders", "Folder"), "served: true", "served: true, deprecated: true", 1))
		_, diff := l.look(t)
		assert.Contains(t, diff, "configmap/web/a/data.text: other → x")
		assert.Contains(t, diff, "customresourcedefinition/things.example.com/spec.versions.v1.schema.openAPIV3Schema.description: theirs → ours")
		assert.Contains(t, diff, "customresourcedefinition/folders.example.com/spec.versions.v1.deprecated: true → (none)")
		assert.NotContains(t, diff, "pairs")
		written = nil
		l.apply(t)
		assert.ElementsMatch(t, []string{"PATCH folders.example.com", "PATCH a", "PATCH things.example.com"}, written)
		s, diff := l.look(t)
		assert.NotContains(t, diff, "deprecated")
		assert.NotContains(t, diff, "configmap")
		assert.Equal(t, 1, s.Revision)

		require.NoError(t, k.Delete(t.Context(), live(t, defined("pairs", "Pair"))))
		time.Sleep(time.Second)
		_, diff = l.look(t)
		assert.Contains(t, diff, "customresourcedefinition/pairs.example.com: new")
		edit(t, k, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}, data: {text: other}}")
		for _, path := range []string{"/pairs.example.com", "/configmaps/a", "/secrets"} {
			*before = func(r *http.Request) error {
				if strings.HasSuffix(r.URL.Path, path) && (r.Method == http.MethodPatch || path == "/secrets") && r.URL.Query().Get("dryRun") == "" {
					return errRefused
				}
				return nil
			}
			err := l.c.Apply(t.Context(), l.r)
			require.ErrorIs(t, err, kube.ErrForbidden, path)
			assert.ErrorContains(t, err, "release web/r: ", path)
		}
		*before = count
		l.apply(t)
	})
}

func live(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	objs, err := kube.Decode([]byte(manifest))
	require.NoError(t, err)
	return objs[0].(*unstructured.Unstructured)
}

// TestWhatIsNotReadyIsSeen: an up-to-date release whose deployment does not become ready.
func TestWhatIsNotReadyIsSeen(t *testing.T) {
	const web = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: REPLICAS, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: d}]}}}}`
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, before *func(*http.Request) error) {
		l := newLife(t, k, map[string]string{"templates/d.yaml": strings.Replace(web, "REPLICAS", "0", 1)})
		l.apply(t)
		edit(t, k, strings.NewReplacer("REPLICAS", "1", "name: d}, spec", "name: d, namespace: web}, spec").Replace(web))
		time.Sleep(time.Minute)
		s, diff := l.look(t)
		require.Len(t, s.Waiting, 1)
		assert.Contains(t, s.Waiting[0], "deployment web/d: 0 of 1 pods are")
		assert.Contains(t, diff, "deployment/web/d/spec.replicas: 1 → 0; deployment/web/d: not ready → ready [0 of 1 pods are")
		*before = func(r *http.Request) error {
			if strings.HasSuffix(r.URL.Path, "/pods") {
				return errRefused
			}
			return nil
		}
		_, err := l.c.Observe(t.Context(), l.r)
		require.ErrorIs(t, err, kube.ErrForbidden)
	})
}

// TestWhatIsRefusedIsADifference: with the API server's words, but for a Secret's.
func TestWhatIsRefusedIsADifference(t *testing.T) {
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, before *func(*http.Request) error) {
		l := newLife(t, k, map[string]string{"templates/a.yaml": mapped("a"), "templates/s.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: v}}"})
		l.apply(t)
		l.write(t, map[string]string{"templates/a.yaml": strings.Replace(mapped("a"), ", data:", ", typo:", 1), "templates/s.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: s}, typo: {k: hunter2}}"})
		s, diff := l.look(t)
		assert.Contains(t, diff, "configmap/web/a: live object → wanted object (needs a replacement) [apply configmap web/a: refused as invalid: ")
		assert.Contains(t, diff, "secret/web/s: live object → wanted object (needs a replacement) [the API server refuses it as invalid]")
		assert.NotContains(t, diff, "hunter2")
		assert.Equal(t, converge.Replace, s.Changes[1].Effect)
		for refusal, want := range map[error]string{errRefused: "configmap/web/a: live object → wanted object [apply configmap web/a: not allowed: no way]"} {
			*before = func(r *http.Request) error {
				if r.URL.Query().Get("dryRun") != "" {
					return refusal
				}
				return nil
			}
			_, diff = l.look(t)
			assert.Contains(t, diff, want)
		}
		*before = func(r *http.Request) error {
			if r.URL.Query().Get("dryRun") != "" {
				return http.ErrServerClosed
			}
			return nil
		}
		_, err := l.c.Observe(t.Context(), l.r)
		require.ErrorIs(t, err, kube.ErrUnreachable, "nobody has refused anything")
	})
}

// TestPlansThatFail: say which release, and write nothing.
func TestPlansThatFail(t *testing.T) {
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, before *func(*http.Request) error) {
		writes := 0
		*before = func(r *http.Request) error {
			if r.Method != http.MethodGet {
				writes++
			}
			return nil
		}
		for want, change := range map[string]func(life) life{
			"release web/r: values: json: unsupported type": func(l life) life { l.r.Values = map[string]any{"f": func() {}}; return l },
			`release web/r: release "": `:                   func(l life) life { l.r.Name = ""; return l },
			"manifest, document 1: ":                        func(l life) life { l.write(t, map[string]string{"crds/c.yaml": "{kind: A}"}); return l },
			"the chart and its exact version must be named": func(l life) life { l.r.Version = ""; return l },
		} {
			l := change(newLife(t, k, map[string]string{"templates/a.yaml": mapped("a")}))
			_, err := l.c.Observe(t.Context(), l.r)
			require.ErrorContains(t, err, strings.Replace(want, `release web/r: release "": `, `release "": `, 1))
			require.ErrorContains(t, l.c.Apply(t.Context(), l.r), strings.Replace(want, `release web/r: release "": `, `release "": `, 1))
		}
		assert.Zero(t, writes)
	})
}

// TestUninstallStopsWhereItIsRefused: and goes on from there the next time.
func TestUninstallStopsWhereItIsRefused(t *testing.T) {
	hook := func(event string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + event + ", annotations: {helm.sh/hook: " + event + "}}}"
	}
	bubble(t, func(t *testing.T, k *kube.Client, _ *helm.Client, before *func(*http.Request) error) {
		l := newLife(t, k, map[string]string{"templates/a.yaml": mapped("a"), "templates/h.yaml": hook("pre-delete") + "\n---\n" + hook("post-delete")})
		l.apply(t)
		var last string
		for _, rule := range []string{"PATCH /pre-delete", "DELETE /a", "PATCH /post-delete", "DELETE .v1"} {
			verb, path, _ := strings.Cut(rule, " ")
			*before = func(r *http.Request) error {
				if r.Method == verb && strings.HasSuffix(r.URL.Path, path) {
					last = rule
					return errRefused
				}
				return nil
			}
			err := l.c.Uninstall(t.Context(), "web", "r")
			require.ErrorIs(t, err, kube.ErrForbidden, rule)
			assert.Equal(t, rule, last)
			if verb == "PATCH" || path == "/a" {
				assert.ErrorContains(t, err, "uninstall release web/r: ")
			}
			s, _ := l.look(t)
			assert.Equal(t, "uninstalling", s.Status)
		}
		*before = func(*http.Request) error { return nil }
		require.NoError(t, l.c.Uninstall(t.Context(), "web", "r"))
		assert.ElementsMatch(t, []string{"pre-delete", "post-delete"}, l.there(t))
		require.NoError(t, l.c.Uninstall(t.Context(), "web", "r"), "twice is fine")
		require.NoError(t, k.Get(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}))
	})
}

// TestDownloadsThatCannotBeKept: and those that were kept and cannot be read.
func TestDownloadsThatCannotBeKept(t *testing.T) {
	repo := newRepository(t)
	dir := t.TempDir()
	source, r := helm.Source{Cache: dir}, repo.release()
	r.Digest = "sha256:" + repo.digest
	require.NoError(t, source.Check(t.Context(), r, caps))
	files, err := filepath.Glob(dir + "/*/web-1.0.0.tgz")
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.Remove(files[0]))
	require.NoError(t, os.Mkdir(files[0], 0o700))
	require.NoError(t, source.Check(t.Context(), r, caps), "it is used all the same")
	source.Offline = true
	require.ErrorContains(t, source.Check(t.Context(), r, caps), "chart "+files[0]+": read ")
	t.Setenv("XDG_CACHE_HOME", "not/absolute")
	require.NoError(t, helm.Source{}.Check(t.Context(), repo.release(), caps))
	var missing *helm.NotFoundError
	r = repo.release()
	r.Version = "9.9.9"
	require.ErrorAs(t, helm.Source{Cache: dir}.Check(t.Context(), r, caps), &missing)
	assert.NoError(t, missing.Unwrap(), "it has answered that there is none")
}
