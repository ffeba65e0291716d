package addon

import (
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube/chart"
)

// Values of a chart.
type values = map[string]any

// release makes the release of a part from its pin and what the file says of its chart.
func (s *Site) release(i Info, v values) *chart.Release {
	merged := chart.Merge(plain(v).(values), plain(s.Charts.Values[i.Name]).(values))
	return i.Chart.Release(i.Name, i.Namespace, s.Charts.Versions[i.Name], merged)
}

// Tolerations returns the tolerations of pods that run on nodes with these taints.
func Tolerations(taints []corev1.Taint) []corev1.Toleration {
	var all []corev1.Toleration
	seen := map[corev1.Toleration]bool{}
	for _, t := range taints {
		one := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists, Effect: t.Effect}
		if t.Value != "" {
			one.Operator, one.Value = corev1.TolerationOpEqual, t.Value
		}
		if !seen[one] {
			seen[one] = true
			all = append(all, one)
		}
	}
	return all
}

// everywhere returns tolerations for pods that every node needs, whatever its taints.
func everywhere() []any { return []any{values{"operator": "Exists"}} }

// exists tolerates a taint whatever its value.
func exists(key string, effect corev1.TaintEffect) values {
	v := values{"key": key, "operator": "Exists"}
	if effect != "" {
		v["effect"] = string(effect)
	}
	return v
}

// tolerations returns the chart's own tolerations and those for the cluster's taints: a list
// in values replaces the chart's.
func (s *Site) tolerations(chartsOwn ...values) []any {
	var all []any
	for _, v := range chartsOwn {
		all = append(all, v)
	}
	for _, t := range Tolerations(s.Taints()) {
		v := values{"key": t.Key, "operator": string(t.Operator)}
		if t.Value != "" {
			v["value"] = t.Value
		}
		if t.Effect != "" {
			v["effect"] = string(t.Effect)
		}
		covered := false
		for _, own := range all {
			covered = covered || includes(own.(values), v)
		}
		if !covered {
			all = append(all, v)
		}
	}
	return all
}

func includes(own, v values) bool {
	return own["key"] == v["key"] && own["operator"] == "Exists" && (own["effect"] == nil || own["effect"] == v["effect"])
}

// tolerate sets tolerations at each of the paths, if there are any.
func (s *Site) tolerate(v values, paths ...[]string) {
	list := s.tolerations()
	if len(list) == 0 {
		return
	}
	for _, p := range paths {
		set(v, list, append(p, "tolerations")...)
	}
}

// set sets a value in nested mappings, and creates missing ones.
func set(v values, to any, path ...string) {
	for _, key := range path[:len(path)-1] {
		next, ok := v[key].(values)
		if !ok {
			next = values{}
			v[key] = next
		}
		v = next
	}
	v[path[len(path)-1]] = to
}

// plain converts v to the types that YAML decodes to: []any, map[string]any, string, bool,
// int64, float64. Templates of charts expect them.
func plain(v any) any {
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Map:
		m := make(values, rv.Len())
		for it := rv.MapRange(); it.Next(); {
			m[it.Key().String()] = plain(it.Value().Interface())
		}
		return m
	case reflect.Slice:
		l := make([]any, rv.Len())
		for i := range l {
			l[i] = plain(rv.Index(i).Interface())
		}
		return l
	case reflect.Int, reflect.Int32, reflect.Int64:
		return rv.Int()
	case reflect.String:
		return rv.String()
	}
	return v
}

// ownerLabel says whose an object is; owner, that it is ours.
const ownerLabel, owner = "app.kubernetes.io/managed-by", "homelab"

const (
	projectLabel = "app.kubernetes.io/part-of"
	nameLabel    = "app.kubernetes.io/name"
)

// ownLabels are the labels of our objects.
func ownLabels(part string) map[string]string {
	return map[string]string{projectLabel: "homelab", ownerLabel: owner, nameLabel: part}
}

func meta(part, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: ownLabels(part)}
}

// namespaceObject is a namespace with these labels.
func namespaceObject(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// privilegedLabels is for namespaces whose pods mount folders of the node.
func privilegedLabels() map[string]string {
	return map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}
}

// requireSet reports the empty settings of a part.
func requireSet(part string, fields ...string) error {
	var errs []error
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] == "" {
			errs = append(errs, fmt.Errorf("%s: %s is not set", part, fields[i]))
		}
	}
	return errors.Join(errs...)
}
