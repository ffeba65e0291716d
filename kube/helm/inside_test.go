package helm

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

func value(t *testing.T, text string) any {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	return v
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		live, want string
		covers     bool
	}{
		{"{a: 1, b: 2}", "{a: 1}", true},
		{"{a: 1}", "{a: 1, b: 2}", false},
		{"{a: 1}", "{a: 2}", false},
		{"{cpu: '1'}", "{cpu: 1000m}", true},
		{"{cpu: '1'}", "{cpu: 1}", true},
		{"{cpu: '1'}", "{cpu: 1100m}", false},
		{"{memory: 1Gi}", "{memory: 1024Mi}", true},
		{"{version: '1.10'}", "{version: '1.1'}", false},
		{"{a: x}", "{a: x, b: {}, c: [], d: '', e: false, f: {g: {}}}", true},
		{"{a: x}", "{a: x, b: {c: 1}}", false},
		{"{l: [1, 2]}", "{l: [1, 2]}", true},
		{"{l: [1, 2]}", "{l: [2, 1]}", false},
		{"{l: [1, 2]}", "{l: [1]}", false},
		{"{l: [{name: a, x: 1, y: 2}, {name: b}]}", "{l: [{name: b}, {name: a, x: 1}]}", true},
		{"{l: [{name: a, x: 1}, {name: b}]}", "{l: [{name: a, x: 1}]}", true},
		{"{l: [{name: a}]}", "{l: [{name: a}, {name: b}]}", false},
		{"{l: [{name: a}]}", "{l: [{name: a}, {name: a, x: 1}]}", false},
		{"{l: [{name: a, x: 1}, 7]}", "{l: [{name: a, x: 1}]}", false},
		{"{a: {b: 1}}", "{a: 1}", false},
		{"{a: null}", "{a: {}}", true},
		{"{a: true}", "{a: 'true'}", false},
	} {
		assert.Equal(t, c.covers, includes(value(t, c.live), value(t, c.want)), "%s holds %s", c.live, c.want)
	}
}

// FuzzCovers: what holds all of something holds it still with more in it, and
// everything holds itself.
func FuzzCovers(f *testing.F) {
	f.Add(`{"a":{"b":[{"name":"x","v":1}]},"c":"1000m"}`)
	f.Add(`[1,null,"",{}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			more := map[string]any{"more": "x"}
			for k, e := range m {
				more[k] = e
			}
			if !includes(more, v) {
				t.Fatalf("%s with more in it does not hold it", text)
			}
		}
		if !includes(v, v) || !equalExceptRandom(v, v, v) {
			t.Fatalf("%s does not hold itself", text)
		}
	})
}

func TestSameButRandom(t *testing.T) {
	for _, c := range []struct {
		stored, one, another string
		same                 bool
	}{
		{"{a: 1}", "{a: 1}", "{a: 1}", true},
		{"{a: 1}", "{a: 2}", "{a: 2}", false},
		{"{a: x, b: 1}", "{a: y, b: 1}", "{a: z, b: 1}", true},
		{"{a: x, b: 1}", "{a: y, b: 2}", "{a: z, b: 2}", false},
		{"{a: x}", "{a: y, b: 1}", "{a: z, b: 1}", false},
		{"{a: [x, 1]}", "{a: [y, 1]}", "{a: [z, 1]}", true},
		{"{a: [x]}", "{a: [y, 1]}", "{a: [z, 1]}", false},
		{"{a: x}", "{b: x}", "{b: x}", false},
	} {
		assert.Equal(t, c.same, equalExceptRandom(value(t, c.stored), value(t, c.one), value(t, c.another)), "%+v", c)
	}
}

func TestValuesDiffMasksWhatIsCalledLikeASecret(t *testing.T) {
	var d converge.Diff
	values(&d, []string{"values"},
		value(t, `{a: 1, auth: {adminPassword: hunter2, token: x}, list: [{m: 1}, {m: 2}], long: {deep: {er: 1}}, env: [hunter2]}`),
		value(t, `{a: 2, auth: {adminPassword: hunter3}, list: [{m: 1}, {m: 3}], new: {thing: yes}, env: []}`))
	assert.Equal(t, "values/a: 1 → 2; values/auth/adminPassword: "+secret.Mask+" → "+secret.Mask+"; values/auth/token: "+secret.Mask+" → (none); "+
		"values/env: 1 entries → 0 entries; values/list/1/m: 2 → 3; values/long/deep/er: 1 → (none); values/new/thing: true", d.String())
	assert.NotContains(t, d.String(), "hunter")
}

func TestHead(t *testing.T) {
	text, err := os.ReadFile("testdata/charts/web-1.0.0/crds/widget.yaml")
	require.NoError(t, err)
	ref, ok := head(text)
	require.True(t, ok)
	assert.Equal(t, "customresourcedefinition widgets.test.example.com", ref.String())
	for _, bad := range []string{
		"", "kind: CustomResourceDefinition", "{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: a.b}}",
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  labels:\n    name: a.b\n",
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: \"a.b\"\n",
	} {
		_, ok := head([]byte(bad))
		assert.False(t, ok, bad)
	}
}

// FuzzHead: where the head is read without the rest, the rest agrees.
func FuzzHead(f *testing.F) {
	text, err := os.ReadFile("testdata/charts/web-1.0.0/crds/widget.yaml")
	require.NoError(f, err)
	f.Add(string(text))
	f.Add("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a.b\n  name: c.d\n")
	f.Add("# c\napiVersion: apiextensions.k8s.io/v1\nmetadata:\n  annotations: |\n  name: a.b\nkind: CustomResourceDefinition\n")
	f.Fuzz(func(t *testing.T, text string) {
		ref, ok := head([]byte(text))
		if !ok {
			return
		}
		objs, err := objects(text)
		if err != nil {
			return // the API server will say so
		}
		if len(objs) != 1 || objs[0].GetName() != ref.Name || objs[0].GetKind() != ref.Kind {
			t.Fatalf("%q is %v, not %v", text, objs, ref)
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add("entries:\n  web:\n  - {version: 1.0.0, urls: [a.tgz], digest: x}\n")
	f.Add("entries: {web: [null]}")
	f.Fuzz(func(t *testing.T, text string) {
		ix, err := parseIndex([]byte(text))
		if err != nil {
			return
		}
		e, err := ix.find("web", "1.0.0")
		if err == nil && len(e.URLs) == 0 {
			t.Fatal("an entry without a URL")
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add(`{"layers":[{"mediaType":"` + chartLayer + `","digest":"sha256:0","size":-1}]}`)
	f.Add(`{"layers":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		layer, err := parseManifest([]byte(text))
		if err == nil && (layer.Size < 0 || layer.Digest == "") {
			t.Fatalf("%+v", layer)
		}
	})
}

func sample(t testing.TB) *release.Release {
	t.Helper()
	ch, err := loader.Load("testdata/charts/web-1.0.0")
	require.NoError(t, err)
	return &release.Release{Name: "site", Namespace: "web", Version: 3, Chart: ch, Config: map[string]any{"a": 1.0}, Manifest: "---\n",
		Labels: map[string]string{"mine": "kept"}, Info: &release.Info{Status: release.StatusDeployed, Description: "x"}}
}

// TestRecordIsHelms reads our records by Helm's own code, and Helm's by ours.
func TestRecordIsHelms(t *testing.T) {
	ours, err := encodeRecord(sample(t))
	require.NoError(t, err)
	assert.Equal(t, "sh.helm.release.v1.site.v3", ours.Name)
	helm := driver.NewSecrets(fake.NewClientset(ours).CoreV1().Secrets("web"))
	rel, err := helm.Get(ours.Name)
	require.NoError(t, err)
	assert.Equal(t, "web", rel.Chart.Name())
	assert.Equal(t, map[string]string{"mine": "kept"}, rel.Labels)
	found, err := helm.Query(map[string]string{"name": "site", "owner": "helm", "status": "deployed"})
	require.NoError(t, err)
	assert.Len(t, found, 1)

	theirs := sample(t)
	api := fake.NewClientset()
	require.NoError(t, driver.NewSecrets(api.CoreV1().Secrets("web")).Create("sh.helm.release.v1.site.v3", theirs))
	s, err := api.CoreV1().Secrets("web").Get(t.Context(), "sh.helm.release.v1.site.v3", metav1.GetOptions{})
	require.NoError(t, err)
	got, err := decodeRecord(asObject(t, s))
	require.NoError(t, err)
	assert.Equal(t, 3, got.Version)
	assert.Equal(t, release.StatusDeployed, got.Info.Status)
	assert.Equal(t, s.Type, ours.Type)
	assert.Equal(t, strings.Join(slices.Sorted(maps.Keys(s.Labels)), " "), strings.Join(slices.Sorted(maps.Keys(ours.Labels)), " "))
}

func asObject(t *testing.T, s *corev1.Secret) *unstructured.Unstructured {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	u := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(b, &u.Object))
	return u
}

func FuzzRecord(f *testing.F) {
	b, err := pack(sample(f))
	require.NoError(f, err)
	f.Add(b)
	for _, text := range []string{`{"name":"x","info":{}}`, `{"name":"x"}`, `{"info":{}}`, `{}`} {
		f.Add([]byte(base64.StdEncoding.EncodeToString([]byte(text))))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rel, err := unpack(text)
		if err == nil && (rel.Info == nil || rel.Name == "") {
			t.Fatal("a record of nothing")
		}
	})
}
