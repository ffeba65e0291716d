package helm

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube/chart"
)

func TestHeads(t *testing.T) {
	const plain = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a.b\n"
	for text, ok := range map[string]bool{
		plain: true,
		"# comment {x}\n---\n" + plain + "spec:\n  x: {y: &z}\n": true,
		strings.ReplaceAll(plain, "\n", "\r\n"):                  true,
		"metadata:\n  labels:\n    name: c.d\n  name: a.b\nkind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1": true,
		"other:\n  name: c.d\n" + plain:                          true,
		plain + "spec:\n  name: c.d\n":                           true,
		plain + "metadata:\n  name: c.d\n":                       false, // twice
		plain + "kind: Other\n":                                  false,
		plain + "x: {y}\n":                                       false,
		plain + "x: [y] # &\n":                                   false,
		plain + "x: |\n":                                         false,
		plain + "\tx: y\n":                                       false,
		strings.Replace(plain, "a.b", "ab", 1):                   false,
		strings.Replace(plain, "a.b", "", 1):                     false,
		strings.Replace(plain, "a.b", "a.b c", 1):                false,
		strings.Replace(plain, "Custom", "custom", 1):            false,
		strings.Replace(plain, "k8s.io/v1", "k8s.io/v1beta1", 1): false,
		strings.Replace(plain, "metadata:", "metadata: x", 1):    false,
		strings.Replace(plain, "metadata:", "metadada:", 1):      false,
		strings.Replace(plain, "  name", "   name", 1):           false,
	} {
		ref, is := head([]byte(text))
		assert.Equal(t, ok, is, text)
		if ok {
			assert.Equal(t, "a.b", ref.Name, text)
		}
	}
	for word, is := range map[string]bool{"a": true, "z": true, "A": true, "Z": true, "a0": true, "a9": true, "a.b-c/d": true, "aZ": true,
		"": false, "0": false, "9a": false, ".a": false, "-a": false, "/a": false, "a:": false, "a b": false, "a_": false, "é": false, "a@": false, "a[": false, "`a": false, "{a": false,
		"true": false, "false": false, "null": false, "trueish": true} {
		assert.Equal(t, is, isName(word), "%q", word)
	}
}

func withCRD(ch *helmchart.Chart, text string) *helmchart.Chart {
	ch.Files = []*helmchart.File{{Name: "crds/all.yaml", Data: []byte(text)}}
	return ch
}

// TestDefinitionsOfAChart: one for each document, with its digest, whatever way it is written in.
func TestDefinitionsOfAChart(t *testing.T) {
	const plain = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a.b\n"
	const flow = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: "c.d"}}`
	with := func(text string) *helmchart.Chart { return withCRD(inMemory("top", nil), text) }
	all, err := definitions(with("# nothing\n---\n" + plain + "---\n" + flow + "\n---\n\n"))
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "customresourcedefinition a.b customresourcedefinition c.d", all[0].ref.String()+" "+all[1].ref.String())
	assert.Len(t, all[0].digest, 32)
	assert.NotEqual(t, all[0].digest, all[1].digest)
	for _, d := range all {
		assert.Equal(t, "top/crds/all.yaml", d.file)
		u, err := d.object()
		require.NoError(t, err)
		assert.Equal(t, d.ref.Name, u.GetName())
	}
	for want, text := range map[string]string{
		"chart top-1.0.0: top/crds/all.yaml: manifest, document 1: ":                 "{kind: A}",
		"chart top-1.0.0: top/crds/all.yaml: more than one definition in a document": "{apiVersion: v1, kind: List, items: [" + flow + ", " + flow + "]}",
	} {
		_, err := definitions(with(text))
		require.ErrorContains(t, err, want)
	}
	_, err = definition{file: "f", text: []byte("{")}.object()
	require.ErrorContains(t, err, "f: manifest")
	_, err = definition{file: "f", text: []byte("{apiVersion: v1, kind: List, items: [" + flow + ", " + flow + "]}")}.object()
	require.EqualError(t, err, "f: it is not one object")
	_, err = definition{file: "f"}.object()
	require.EqualError(t, err, "f: it is not one object")
}

// TestTouched: who has set fields of a definition's own besides us.
func TestTouched(t *testing.T) {
	spec, status := metav1.NewFieldsV1(`{"f:spec":{"f:x":{}}}`), metav1.NewFieldsV1(`{"f:status":{}}`)
	for _, c := range []struct {
		e  metav1.ManagedFieldsEntry
		is bool
	}{
		{metav1.ManagedFieldsEntry{Manager: manager, Operation: "Apply", FieldsV1: spec}, false},
		{metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", FieldsV1: spec}, true},
		{metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: "Apply", FieldsV1: spec}, true},
		{metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: "Update", FieldsV1: status}, false},
		{metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: "Update", Subresource: "status", FieldsV1: spec}, false},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Operation: "Apply", FieldsV1: spec}, c.e})
		assert.Equal(t, c.is, isForeignManaged(u), "%+v", c.e)
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	note(u, "one")
	u.SetAnnotations(map[string]string{"a": "b", noteApplied: "one"})
	note(u, "two")
	assert.Equal(t, map[string]string{"a": "b", noteApplied: "two"}, u.GetAnnotations())
}

// TestRecords: what is not a record is said to be none, and what is one comes back whole.
func TestRecords(t *testing.T) {
	zip := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text))
		require.NoError(t, z.Close())
		return b.String()
	}
	object := func(data string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"release": base64.StdEncoding.EncodeToString([]byte(data))}}}
		u.SetName("s")
		u.SetNamespace("ns")
		u.SetLabels(map[string]string{"a": "b"})
		return u
	}
	b64 := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	const good = `{"name": "x", "version": 3, "info": {"status": "deployed"}}`
	for _, text := range []string{good, zip(good)} {
		rel, err := decodeRecord(object(b64(text)))
		require.NoError(t, err)
		assert.Equal(t, "x", rel.Name)
		assert.Equal(t, 3, rel.Version)
		assert.Equal(t, "ns", rel.Namespace)
		assert.Equal(t, map[string]string{"a": "b"}, rel.Labels)
	}
	rel, err := decodeRecord(object(b64(`{"name": "x", "namespace": "own", "info": {}}`)))
	require.NoError(t, err)
	assert.Equal(t, "own", rel.Namespace)
	for want, text := range map[string]string{
		"illegal base64 data": "?", "unexpected end of JSON input": "", "unexpected EOF": b64(zip(good)[:12]), "it names no release": b64(`{"name": "x"}`),
		"EOF": b64("\x1f\x8b"), "invalid character": b64("x"), "names no release": b64(`{"info": {}}`),
	} {
		_, err := decodeRecord(object(text))
		require.ErrorContains(t, err, "secret ns/s is not a record of Helm's: ")
		require.ErrorContains(t, err, want)
	}
	u := object("")
	u.Object["data"] = map[string]any{"release": "?"}
	_, err = decodeRecord(u)
	require.ErrorContains(t, err, "illegal base64")

	s := sample(t)
	s.Labels = nil
	first, err := encodeRecord(s)
	require.NoError(t, err)
	assert.Contains(t, first.Labels, "createdAt")
	assert.NotContains(t, first.Labels, "modifiedAt")
	assert.Equal(t, "site helm deployed 3", first.Labels["name"]+" "+first.Labels["owner"]+" "+first.Labels["status"]+" "+first.Labels["version"])
	again, err := encodeRecord(s)
	require.NoError(t, err)
	assert.Equal(t, first.Labels["createdAt"], again.Labels["createdAt"])
	assert.Contains(t, again.Labels, "modifiedAt")
	s.Config = map[string]any{"f": func() {}}
	_, err = encodeRecord(s)
	require.ErrorContains(t, err, "release web/site: its record: json: unsupported type")
}

// TestDigests: over all files by name and length, and of what a cluster serves over what templates ask for.
func TestDigests(t *testing.T) {
	files := func(pairs ...string) *helmchart.Chart {
		ch := inMemory("top", nil)
		for i := 0; i < len(pairs); i += 2 {
			ch.Raw = append(ch.Raw, &helmchart.File{Name: pairs[i], Data: []byte(pairs[i+1])})
		}
		return ch
	}
	one := digest(files("a", "1", "b", "2"))
	assert.Equal(t, one, digest(files("b", "2", "a", "1")))
	for _, other := range []*helmchart.Chart{files("a", "1", "b", "3"), files("a", "1", "c", "2"), files("a", "1b", "", "2"), files("a", "12"), files("a", "1")} {
		assert.NotEqual(t, one, digest(other))
	}
	ch := inMemory("top", nil, inMemory("sub", nil))
	ch.Templates = []*helmchart.File{{Name: "a", Data: []byte(`{{ .Capabilities.APIVersions.Has "x/v1" }}`)}, {Name: "b", Data: []byte("z/v1")}}
	ch.Dependencies()[0].Templates = []*helmchart.File{{Name: "c", Data: []byte(`APIVersions y/v1`)}}
	p := &plan{release: chart.Release{Name: "n", Namespace: "ns"}, chart: &preparedChart{chart: ch}, files: "f", config: "c"}
	base := p.digest(Capabilities{Kubernetes: "v1"})
	assert.Equal(t, base, p.digest(Capabilities{Kubernetes: "v1", APIs: []string{"z/v1", "w/v1"}}), "nothing asks for these")
	seen := map[string]bool{base: true}
	for _, d := range []string{p.digest(Capabilities{Kubernetes: "v2"}), p.digest(Capabilities{Kubernetes: "v1", APIs: []string{"x/v1"}}), p.digest(Capabilities{Kubernetes: "v1", APIs: []string{"y/v1"}}),
		(&plan{release: chart.Release{Name: "ns", Namespace: "n"}, chart: p.chart, files: "f", config: "c"}).digest(Capabilities{Kubernetes: "v1"}),
		(&plan{release: p.release, chart: p.chart, files: "g", config: "c"}).digest(Capabilities{Kubernetes: "v1"}),
		(&plan{release: p.release, chart: p.chart, files: "f", config: "d"}).digest(Capabilities{Kubernetes: "v1"})} {
		assert.False(t, seen[d])
		seen[d] = true
	}
	assert.Equal(t, "{}", canonical(nil))
	assert.Equal(t, canonical(map[string]any{"a": 1, "b": 2}), canonical(map[string]any{"b": 2, "a": 1}))
	assert.Equal(t, `{"a":1}`, canonical(map[string]any{"a": 1}))
}

// TestOrder: Helm's, definitions with namespaces, what it does not know last.
func TestOrder(t *testing.T) {
	var text strings.Builder
	for _, kind := range []string{"Gadget", "Deployment", "ConfigMap", "CustomResourceDefinition", "Namespace", "Service", "Widget"} {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: %s, metadata: {name: a}}\n", kind)
	}
	objs, err := objects(text.String())
	require.NoError(t, err)
	var order []string
	for _, u := range objs {
		order = append(order, u.GetKind())
	}
	assert.Equal(t, []string{"CustomResourceDefinition", "Namespace", "ConfigMap", "Service", "Deployment", "Gadget", "Widget"}, order)
	_, err = objects("{apiVersion: v1, kind: ConfigMap}")
	require.EqualError(t, err, "manifest: ConfigMap without a name")
	_, err = objects("{")
	require.Error(t, err)
	assert.Equal(t, 0, rank("CustomResourceDefinition")-rank("Namespace"))
	assert.Less(t, rank("PriorityClass"), rank("Namespace")+2)
	assert.Empty(t, nameAndVersion(nil))
	assert.Empty(t, nameAndVersion(&helmchart.Chart{}))
}

// TestDefaultsThatValuesReplace: by another kind of thing go, so that Helm's merge has nothing to warn of.
func TestDefaultsThatValuesReplace(t *testing.T) {
	for _, c := range []struct{ defaults, values, left string }{
		{"{a: {b: 1}}", "{a: 5}", "{}"}, {"{a: 5}", "{a: {b: 1}}", "{}"}, {"{a: {b: 1}}", "{a: null}", "{a: {b: 1}}"}, {"{a: null}", "{a: {b: 1}}", "{a: null}"},
		{"{a: 5, c: 1}", "{a: 6, d: {e: 1}}", "{a: 5, c: 1}"}, {"{a: {b: {c: 1}, d: 2}}", "{a: {b: 1, d: 3}}", "{a: {d: 2}}"}, {"{a: [1]}", "{a: 1}", "{a: [1]}"},
	} {
		defaults := value(t, c.defaults).(map[string]any)
		dropOtherTypes(defaults, value(t, c.values).(map[string]any))
		assert.Equal(t, value(t, c.left), defaults, "%+v", c)
	}
	sub := inMemory("sub", map[string]any{"a": map[string]any{"x": 1}, "b": map[string]any{"x": 1}, "c": map[string]any{"x": 1}, "keep": map[string]any{"x": 1}})
	top := inMemory("top", map[string]any{"sub": map[string]any{"a": 1}}, sub, inMemory("other", nil))
	top.Metadata.Dependencies[0].Alias, top.Metadata.Dependencies[1].Alias = "second", "third"
	dropReplacedDefaults(top, map[string]any{"sub": map[string]any{"b": 1}, "second": map[string]any{"c": 1}, "third": map[string]any{"keep": 1}})
	assert.Equal(t, map[string]any{"keep": map[string]any{"x": 1}}, sub.Values)

	given := map[string]any{"mid": map[string]any{"deep": "text", "x": 1}, "flat": 5, "none": nil}
	top = inMemory("top", nil, inMemory("mid", nil, inMemory("deep", nil)), inMemory("flat", nil), inMemory("none", nil))
	assert.Equal(t, []chart.Problem{{Path: "mid.deep", Text: "must be a mapping: the values of the chart deep"}, {Path: "flat", Text: "must be a mapping: the values of the chart flat"}}, mappings(top, given, nil))
	assert.Equal(t, map[string]any{"mid": map[string]any{"x": 1}, "none": nil}, given)
}

// TestPreparedCharts: everything that keeps a chart from a cluster is said at once.
func TestPreparedCharts(t *testing.T) {
	good := chart.Release{Name: "r", Namespace: "ns"}
	for want, c := range map[string]struct {
		change func(*helmchart.Chart, *chart.Release, *Capabilities)
	}{
		`release "": `: {func(_ *helmchart.Chart, r *chart.Release, _ *Capabilities) { r.Name = "" }},
		"release ns/r: values: json: unsupported":                                    {func(_ *helmchart.Chart, r *chart.Release, _ *Capabilities) { r.Values = map[string]any{"f": func() {}} }},
		`Kubernetes version "what": `:                                                {func(_ *helmchart.Chart, _ *chart.Release, c *Capabilities) { c.Kubernetes = "what" }},
		"chart top-1.0.0 wants Kubernetes <1.0.0, and the cluster's is v1.36.5+k3s1": {func(ch *helmchart.Chart, _ *chart.Release, _ *Capabilities) { ch.Metadata.KubeVersion = "<1.0.0" }},
		"its values.schema.json: ":                                                   {func(ch *helmchart.Chart, _ *chart.Release, _ *Capabilities) { ch.Schema = []byte("{") }},
		"chart top-1.0.0 does not accept the values: lacks a":                        {func(ch *helmchart.Chart, _ *chart.Release, _ *Capabilities) { ch.Schema = []byte(`{"required":["a"]}`) }},
	} {
		ch, r, caps := inMemory("top", map[string]any{}), good, Capabilities{Kubernetes: "v1.36.5+k3s1"}
		_, err := prepare(ch, r, caps)
		require.NoError(t, err)
		c.change(ch, &r, &caps)
		_, err = prepare(ch, r, caps)
		require.ErrorContains(t, err, want)
	}
	caps, err := Capabilities{Kubernetes: "v1.36.5+k3s1", APIs: []string{"x/v1"}}.helm()
	require.NoError(t, err)
	assert.Equal(t, "v1.36.5+k3s1", caps.KubeVersion.Version)
	assert.Contains(t, caps.APIVersions, "x/v1")
	assert.Contains(t, caps.APIVersions, "apps/v1")
	caps, err = Capabilities{}.helm()
	require.NoError(t, err)
	assert.NotEmpty(t, caps.KubeVersion.Version)
}

// TestRenderedCharts: notes are those of the chart itself only, and what is not YAML is said.
func TestRenderedCharts(t *testing.T) {
	sub := inMemory("sub", map[string]any{})
	sub.Templates = []*helmchart.File{{Name: "templates/NOTES.txt", Data: []byte("not these")}}
	top := inMemory("top", map[string]any{}, sub)
	top.Templates = []*helmchart.File{{Name: "templates/NOTES.txt", Data: []byte("{{ .Release.Name }} {{ .Release.IsInstall }} {{ .Release.IsUpgrade }} {{ .Release.Revision }}")}, {Name: "templates/sub/NOTES.txt", Data: []byte("nor these")},
		{Name: "templates/a.yaml", Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}")}}
	p, err := prepare(top, chart.Release{Name: "r", Namespace: "ns"}, Capabilities{})
	require.NoError(t, err)
	for at, want := range map[moment]string{{1, true}: "r true false 1", {3, false}: "r false true 3"} {
		out, err := p.render(at, nil)
		require.NoError(t, err)
		assert.Equal(t, want, out.notes)
		assert.Equal(t, "---\n# Source: top/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", out.manifest)
	}
	for want, text := range map[string]string{"chart top-1.0.0 renders something that is not YAML with these values": "kind: [", "chart top-1.0.0 does not render with these values": "{{ fail \"no\" }}"} {
		top.Templates[2].Data = []byte(text)
		_, err = p.render(moment{1, true}, nil)
		require.ErrorContains(t, err, want)
	}
}

// TestMoments: the next revision is the first, one that is installed again, or an upgrade.
func TestMoments(t *testing.T) {
	rel := &release.Release{Version: 4, Info: &release.Info{}}
	assert.Equal(t, moment{1, true}, (&plan{}).moment())
	assert.Equal(t, moment{5, true}, (&plan{last: rel}).moment())
	assert.Equal(t, moment{5, false}, (&plan{last: rel, deployed: rel}).moment())
	assert.Equal(t, "a", (&plan{same: true, last: &release.Release{Manifest: "a"}}).manifest())
	assert.Equal(t, "b", (&plan{next: &renderedChart{manifest: "b"}, last: &release.Release{Manifest: "a"}}).manifest())
}
