package helm

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// includes reports whether live has everything that want asks for, so that applying want would
// change nothing. It may say no where the API server would only write a value differently;
// then the server is asked. It never says yes wrongly, except for fields that an earlier
// revision set and this one does not: callers do not use it where want has changed.
func includes(live, want any) bool {
	switch w := want.(type) {
	case nil:
		return true
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return live == nil && isEmpty(want)
		}
		for k, v := range w {
			if !includes(l[k], v) {
				return false
			}
		}
		return true
	case []any:
		l, ok := live.([]any)
		if !ok {
			return live == nil && len(w) == 0
		}
		return includesList(l, w)
	}
	return equal(live, want) || live == nil && isEmpty(want)
}

func includesList(live, want []any) bool {
	if len(live) == len(want) && !slices.ContainsFunc(indexes(want), func(i int) bool { return !includes(live[i], want[i]) }) {
		return true
	}
	// Lists of named things may have more entries, in another order.
	have := map[string]any{}
	for _, e := range live {
		if m, ok := e.(map[string]any); ok {
			if name, ok := m["name"].(string); ok {
				have[name] = e
			}
		}
	}
	seen := map[string]bool{}
	for _, e := range want {
		m, _ := e.(map[string]any)
		name, ok := m["name"].(string)
		if !ok || seen[name] || have[name] == nil || !includes(have[name], e) {
			return false
		}
		seen[name] = true
	}
	return len(have) == len(live)
}

func indexes(list []any) []int {
	out := make([]int, len(list))
	for i := range out {
		out[i] = i
	}
	return out
}

// isEmpty reports whether a value only says that there is none: the API server omits it.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, e := range v {
			if !isEmpty(e) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return reflect.ValueOf(v).IsZero()
}

// equal compares two scalars: numbers by value, and quantities by amount ("1000m" is "1").
func equal(a, b any) bool {
	if a == b {
		return true
	}
	x, xok := number(a)
	y, yok := number(b)
	if xok && yok {
		return x == y
	}
	// At least one must be a number or have a unit: "1.10" and "1.1" are versions.
	s, sok := quantity(a)
	t, tok := quantity(b)
	if !sok || !tok || !xok && !yok && bare(s) && bare(t) {
		return false
	}
	p, err := resource.ParseQuantity(s)
	q, err2 := resource.ParseQuantity(t)
	return err == nil && err2 == nil && p.Cmp(q) == 0
}

// quantity returns a value as text that may be a quantity.
func quantity(v any) (string, bool) {
	if _, ok := number(v); ok {
		return text64(v), true
	}
	s, ok := v.(string)
	const longest = 24 // longer than any real quantity
	return s, ok && s != "" && len(s) < longest
}

// bare reports whether a text has no unit.
func bare(s string) bool { return strings.Trim(s, "0123456789.") == "" }

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
}

func text64(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// equalValues compares two values of manifests.
func equalValues(a, b any) bool { return includes(a, b) && includes(b, a) }

// equalExceptRandom reports whether stored equals what a chart renders again, except where two
// renderings, one and another, differ: those values are random, and stay as stored.
func equalExceptRandom(stored, one, another any) bool {
	switch s := stored.(type) {
	case map[string]any:
		m, ok := one.(map[string]any)
		n, ok2 := another.(map[string]any)
		if !ok || !ok2 || len(s) != len(m) {
			return false
		}
		for k := range s {
			if _, ok := m[k]; !ok || !equalExceptRandom(s[k], m[k], n[k]) {
				return false
			}
		}
		return true
	case []any:
		m, ok := one.([]any)
		n, ok2 := another.([]any)
		if !ok || !ok2 || len(s) != len(m) || len(m) != len(n) {
			return false
		}
		for i := range s {
			if !equalExceptRandom(s[i], m[i], n[i]) {
				return false
			}
		}
		return true
	}
	return equal(stored, one) || !equal(one, another)
}

// equalManifests does so for whole manifests.
func equalManifests(stored, one, another string) bool {
	if stored == one {
		return true
	}
	var lists [3][]any
	for i, m := range []string{stored, one, another} {
		objs, err := objects(m)
		if err != nil {
			return false
		}
		for _, o := range objs {
			plainSecret(o)
			lists[i] = append(lists[i], o.Object)
		}
	}
	return equalExceptRandom(lists[0], lists[1], lists[2])
}

// plainSecret writes a Secret's stringData as data, as the API server stores it.
func plainSecret(u *unstructured.Unstructured) {
	if u.GetKind() != "Secret" || u.GetAPIVersion() != "v1" {
		return
	}
	texts, ok := u.Object["stringData"].(map[string]any)
	delete(u.Object, "stringData")
	if !ok || len(texts) == 0 {
		return
	}
	data, _ := u.Object["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	for k, v := range texts {
		s, _ := v.(string)
		data[k] = base64.StdEncoding.EncodeToString([]byte(s))
	}
	u.Object["data"] = data
}

// dropControllerFields removes from want what a controller takes over by design: the certificate authority in
// webhooks, where the chart has a placeholder or nothing, and the number of replicas that an
// autoscaler has set. The managed fields of the live object name the controller; a person's
// kubectl does not count as one.
func dropControllerFields(want, live *unstructured.Unstructured) {
	if live == nil {
		return
	}
	switch want.GetKind() {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		hooks, _ := want.Object["webhooks"].([]any)
		for _, h := range hooks {
			m, _ := h.(map[string]any)
			name, _ := m["name"].(string)
			key, _ := json.Marshal(map[string]string{"name": name})
			if controllers(live, "", "f:webhooks", "k:"+string(key), "f:clientConfig", "f:caBundle") {
				unstructured.RemoveNestedField(m, "clientConfig", "caBundle")
			}
		}
	case "CustomResourceDefinition":
		if controllers(live, "", "f:spec", "f:conversion", "f:webhook", "f:clientConfig", "f:caBundle") {
			unstructured.RemoveNestedField(want.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
		}
	case "APIService":
		if controllers(live, "", "f:spec", "f:caBundle") {
			unstructured.RemoveNestedField(want.Object, "spec", "caBundle")
		}
	case "Deployment", "StatefulSet", "ReplicaSet":
		if controllers(live, "scale", "f:spec", "f:replicas") {
			unstructured.RemoveNestedField(want.Object, "spec", "replicas")
		}
	}
}

// controllers reports whether a field has an owner other than Helm, homelab and people.
func controllers(live *unstructured.Unstructured, subresource string, path ...string) bool {
	var theirs bool
	for _, e := range live.GetManagedFields() {
		if !managesField(e, path) {
			continue
		}
		if e.Manager == manager || strings.HasPrefix(e.Manager, "kubectl") {
			return false
		}
		theirs = theirs || e.Subresource == subresource
	}
	return theirs
}

func managesField(e metav1.ManagedFieldsEntry, path []string) bool {
	if e.FieldsV1 == nil {
		return false
	}
	var at map[string]any
	if json.Unmarshal(e.FieldsV1.GetRawBytes(), &at) != nil {
		return false
	}
	for _, p := range path {
		next, ok := at[p].(map[string]any)
		if !ok {
			return false
		}
		at = next
	}
	return true
}
