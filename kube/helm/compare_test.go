package helm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// TestNumbersAreOne: of whatever Go type, and as the quantities that they are.
func TestNumbersAreOne(t *testing.T) {
	for _, one := range []any{1, int64(1), 1.0, "1000m"} {
		for _, other := range []any{1, int64(1), 1.0} {
			assert.True(t, equal(one, other), "%T %T", one, other)
			assert.True(t, equal(other, one), "%T %T", one, other)
			assert.False(t, equal(one, 2), "%T", one)
			assert.False(t, equal(int64(3), one), "%T", one)
		}
	}
	for _, c := range []struct {
		a, b any
		same bool
	}{
		{"1", "1.0", false}, {"1", "1000m", true}, {"1k", "1000", true}, {"1Ki", "1024", true}, {"1.", ".1", false},
		{"", 0, false}, {"x", 1, false}, {1, "x", false}, {true, 1, false}, {"1", 1, true}, {nil, 0, false},
		{strings.Repeat("0", 22) + "1", 1, true}, {strings.Repeat("0", 23) + "1", 1, false}, {1, strings.Repeat("0", 23) + "1", false},
	} {
		assert.Equal(t, c.same, equal(c.a, c.b), "%#v %#v", c.a, c.b)
		assert.Equal(t, c.same, equal(c.b, c.a), "%#v %#v", c.b, c.a)
	}
}

// TestNothingIsNothing: what the API server leaves out need not be there, in whatever form.
func TestNothingIsNothing(t *testing.T) {
	for text, nothing := range map[string]bool{"": true, "null": true, "{}": true, "{a: {b: null}}": true, "[]": true, `""`: true, "0": true, "false": true,
		"[null]": false, "{a: {b: 1}}": false, "x": false, "1": false, "true": false} {
		assert.Equal(t, nothing, isEmpty(value(t, text)), text)
		assert.Equal(t, nothing, includes(nil, value(t, text)), text)
	}
	for _, c := range []struct{ live, want string }{{"x", "{}"}, {"[1]", "{}"}, {"{}", "[]"}, {"x", "[]"}, {"x", `""`}, {"[{name: a}, {}]", "[{name: a}]"},
		{"[{name: a}, {name: b}, {name: b}]", "[{name: b}, {name: a}]"}, {"[{name: a}]", "[{name: 5}]"}, {"[{name: a}]", "[a]"}, {"[a]", "[{name: a}]"}} {
		assert.False(t, includes(value(t, c.live), value(t, c.want)), "%+v", c)
	}
	assert.True(t, includes(value(t, "x"), nil))
}

// TestSameManifests: but for what is drawn, for the order, and for how a Secret is written.
func TestSameManifests(t *testing.T) {
	cm := func(name, v string) string {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {k: %q}}\n", name, v)
	}
	sec := func(field, v string) string {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Secret, metadata: {name: s}, %s: {k: %q}}\n", field, v)
	}
	ns := "---\n{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n"
	b64 := base64.StdEncoding.EncodeToString([]byte("pass"))
	for _, c := range []struct {
		stored, one, another string
		same                 bool
	}{
		{"{", "{", "", true},
		{cm("a", "1"), cm("a", "1")[4:], cm("a", "1"), true},
		{cm("a", "1"), cm("a", "2"), cm("a", "2"), false},
		{cm("a", "1"), cm("a", "2"), cm("a", "3"), true},
		{cm("a", "1"), cm("a", "2") + cm("b", "2"), cm("a", "3") + cm("b", "3"), false},
		{cm("a", "1") + ns, ns + cm("a", "1"), ns + cm("a", "1"), true},
		{sec("data", b64), sec("stringData", "pass"), sec("stringData", "pass"), true},
		{sec("data", b64), sec("stringData", "other"), sec("stringData", "other"), false},
		{"{", cm("a", "1"), cm("a", "1"), false}, {cm("a", "1"), "{", cm("a", "1"), false}, {cm("a", "1"), cm("a", "2"), "{", false},
	} {
		assert.Equal(t, c.same, equalManifests(c.stored, c.one, c.another), "%+v", c)
	}
	for _, c := range []struct{ stored, one, another string }{
		{"{a: 1}", "[1]", "[1]"}, {"{a: 1}", "{a: 1}", "[1]"}, {"{a: 1}", "{a: 1, b: 2}", "{a: 1}"}, {"{a: 1}", "{b: 1}", "{a: 1}"},
		{"[1]", "{a: 1}", "[1]"}, {"[1]", "[1]", "{a: 1}"}, {"[1]", "[1, 2]", "[1, 2]"}, {"[1]", "[1]", "[1, 2]"}, {"[1, 2]", "[1, 3]", "[1, 3]"},
	} {
		assert.False(t, equalExceptRandom(value(t, c.stored), value(t, c.one), value(t, c.another)), "%+v", c)
	}
}

func TestPlainSecret(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"{apiVersion: v1, kind: Secret, stringData: {a: pass}, data: {b: eA==}}", "{apiVersion: v1, kind: Secret, data: {a: cGFzcw==, b: eA==}}"},
		{"{apiVersion: v1, kind: Secret, stringData: {a: pass}}", "{apiVersion: v1, kind: Secret, data: {a: cGFzcw==}}"},
		{"{apiVersion: v1, kind: Secret, stringData: {}}", "{apiVersion: v1, kind: Secret}"},
		{"{apiVersion: v1, kind: Secret, stringData: x, data: {b: eA==}}", "{apiVersion: v1, kind: Secret, data: {b: eA==}}"},
		{"{apiVersion: v1, kind: Secret, data: {b: eA==}}", "{apiVersion: v1, kind: Secret, data: {b: eA==}}"},
		{"{apiVersion: v2, kind: Secret, stringData: {a: pass}}", "{apiVersion: v2, kind: Secret, stringData: {a: pass}}"},
		{"{apiVersion: v1, kind: Other, stringData: {a: pass}}", "{apiVersion: v1, kind: Other, stringData: {a: pass}}"},
	} {
		u := &unstructured.Unstructured{Object: value(t, c.given).(map[string]any)}
		plainSecret(u)
		assert.Equal(t, value(t, c.want), u.Object)
	}
}

// TestWhatControllersFillInIsTheirs: the certificate authority of webhooks, conversions and API
// services, where a controller is at just that field; nobody else's, and of nothing else.
func TestWhatControllersFillInIsTheirs(t *testing.T) {
	held := func(manager string, path ...string) []metav1.ManagedFieldsEntry {
		text := "{}"
		for i := len(path) - 1; i >= 0; i-- {
			key, err := json.Marshal(path[i])
			require.NoError(t, err)
			text = "{" + string(key) + ":" + text + "}"
		}
		return []metav1.ManagedFieldsEntry{{Manager: manager}, {Manager: manager, FieldsV1: metav1.NewFieldsV1("5")}, {Manager: manager, FieldsV1: metav1.NewFieldsV1(text)}}
	}
	const hook = `k:{"name":"b"}`
	for _, c := range []struct {
		object string
		path   []string
		left   string
	}{
		{"kind: ValidatingWebhookConfiguration, webhooks: [{name: a, clientConfig: {caBundle: x}}, {name: b, clientConfig: {caBundle: x, url: z}}, what]",
			[]string{"f:webhooks", hook, "f:clientConfig", "f:caBundle"}, "kind: ValidatingWebhookConfiguration, webhooks: [{name: a, clientConfig: {caBundle: x}}, {name: b, clientConfig: {url: z}}, what]"},
		{"kind: MutatingWebhookConfiguration, webhooks: [{name: b, clientConfig: {caBundle: x}}]", []string{"f:webhooks", hook, "f:clientConfig", "f:caBundle"}, "kind: MutatingWebhookConfiguration, webhooks: [{name: b, clientConfig: {}}]"},
		{"kind: CustomResourceDefinition, spec: {conversion: {webhook: {clientConfig: {caBundle: x, url: z}}}}", []string{"f:spec", "f:conversion", "f:webhook", "f:clientConfig", "f:caBundle"}, "kind: CustomResourceDefinition, spec: {conversion: {webhook: {clientConfig: {url: z}}}}"},
		{"kind: APIService, spec: {caBundle: x, group: g}", []string{"f:spec", "f:caBundle"}, "kind: APIService, spec: {group: g}"},
		{"kind: ConfigMap, spec: {caBundle: x}", []string{"f:spec", "f:caBundle"}, "kind: ConfigMap, spec: {caBundle: x}"},
	} {
		for who, yields := range map[string]bool{"cert-manager-cainjector": true, manager: false, "kubectl": false, "kubectl-edit": false} {
			want := &unstructured.Unstructured{Object: value(t, "{"+c.object+"}").(map[string]any)}
			live := want.DeepCopy()
			live.SetManagedFields(held(who, c.path...))
			before := want.DeepCopy()
			dropControllerFields(want, nil)
			assert.Equal(t, before, want)
			dropControllerFields(want, live)
			left := before.Object
			if yields {
				left = value(t, "{"+c.left+"}").(map[string]any)
			}
			assert.Equal(t, left, want.Object, who)

			live.SetManagedFields(held(who, c.path[:len(c.path)-1]...))
			again := before.DeepCopy()
			dropControllerFields(again, live)
			assert.Equal(t, before, again, "it holds something else")
		}
	}
}

// TestDifferencesOfValues: mappings that come or go are told leaf by leaf, lists of one length entry
// by entry, and long texts are cut.
func TestDifferencesOfValues(t *testing.T) {
	long := strings.Repeat("é", 61)
	for _, c := range []struct{ have, want, diff string }{
		{"{a: {b: 1}}", "{a: 5}", "v/a: 1 keys → 5"},
		{"{a: 5}", "{a: {b: 1, c: 2}}", "v/a: 5 → 2 keys"},
		{"{a: {b: 1}}", "{}", "v/a/b: 1 → (none)"},
		{"{}", "{a: {b: 1}}", "v/a/b: 1"},
		{"{a: [1]}", "{a: {b: 1}}", "v/a: 1 entries → 1 keys"},
		{"{a: [1]}", "{a: x}", "v/a: 1 entries → x"},
		{"{a: [1, 2]}", "{a: [1]}", "v/a: 2 entries → 1 entries"},
		{"{a: [1, 2]}", "{a: [3, 2]}", "v/a/0: 1 → 3"},
		{`{a: ""}`, `{a: "x  z "}`, `v/a: "" → x z`},
		{"{a: true}", "{a: " + long + "}", "v/a: true → " + long[:120] + "…"},
		{"{a: x}", "{a: " + long[:120] + "}", "v/a: x → " + long[:120]},
		{"{}", "{a: false, b: '', c: 0, d: []}", `v/a: false; v/b: ""; v/c: 0; v/d: 0 entries`},
		{"{a: false}", "{}", "v/a: false → (none)"},
		{"{a: 1000m}", "{a: 1}", "v/a: 1000m → 1"},
		{"{token: x}", "{}", "v/token: " + secret.Mask + " → (none)"},
		{"{}", "{apiKey: {a: x}}", "v/apiKey/a: " + secret.Mask},
		{"{a: 1, b: 2, c: 3}", "{c: 4, a: 2, d: 1}", "v/a: 1 → 2; v/b: 2 → (none); v/c: 3 → 4; v/d: 1"},
	} {
		var d converge.Diff
		values(&d, []string{"v"}, value(t, c.have), value(t, c.want))
		assert.Equal(t, c.diff, d.String(), "%+v", c)
	}
	for _, w := range []string{"secret", "dbPassword", "passwd", "token", "credentials", "apiKey", "api_key", "accessKey", "privateKey", "cookie", "kubeconfig"} {
		assert.True(t, secretLike([]string{"a", w, "b"}), w)
	}
	assert.False(t, secretLike([]string{"a", "key", "pass"}))
	assert.False(t, secretLike(nil))
}

// TestDiffOfARelease: what an upgrade would change, and what is not ready.
func TestDiffOfARelease(t *testing.T) {
	s := State{Changes: converge.Diff{{Path: "chart", Have: "a", Want: "b", Effect: converge.Update}}, Waiting: []string{"deployment web/hub: 0 of 1 pods are ready", "what"}}
	assert.Equal(t, "chart: a → b; deployment/web/hub: not ready → ready [0 of 1 pods are ready]; ready: not ready → ready [what]", s.Diff().String())
	assert.Len(t, s.Changes, 1, "the state stays as it is")
}
