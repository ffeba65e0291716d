package addon_test

import (
	"encoding/json"
	"flag"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/sim/facts"
)

// charts is a folder of the real charts, unpacked, as `helm pull --untar` leaves them.
var charts = flag.String("charts", "", "folder of the real charts, for rendering every part with them")

var capabilities = helm.Capabilities{Kubernetes: "v1.36.5+k3s1", APIs: []string{
	"monitoring.coreos.com/v1", "monitoring.coreos.com/v1/ServiceMonitor", "cert-manager.io/v1", "gateway.networking.k8s.io/v1"}}

// Every part renders with its real chart, and everything in it that makes pods
// tolerates every taint.
func TestRender(t *testing.T) {
	source := helm.Source{Folder: facts.Charts(t, *charts), AnyVersion: true, Offline: true}
	for _, s := range samples(t) {
		if s.part.Release == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			require.NoError(t, source.Check(t.Context(), *s.part.Release, capabilities))
			manifest, err := source.Render(t.Context(), *s.part.Release, capabilities)
			require.NoError(t, err)
			objects, err := kube.Decode(manifest)
			require.NoError(t, err)
			require.NotEmpty(t, objects)
			rich := s.name != s.part.Name || slices.Contains([]string{"cephfs", "dcgm-exporter", "metallb", "scratch"}, s.name)
			for _, o := range objects {
				u := o.(*unstructured.Unstructured)
				assert.NotEqual(t, "StorageClass", u.GetKind(), "storage classes are ours")
				if rich && s.name != "monitoring-gateway" {
					checkTolerations(t, u)
				}
			}
		})
	}
}

// checkTolerations: pods of an object run on nodes with any of the taints.
func checkTolerations(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	path := []string{"spec", "template", "spec", "tolerations"}
	switch u.GetKind() {
	case "Deployment", "DaemonSet", "StatefulSet", "Job":
	case "Prometheus", "Alertmanager":
		path = []string{"spec", "tolerations"}
	default:
		return
	}
	list, _, err := unstructured.NestedSlice(u.Object, path...)
	require.NoError(t, err)
	var have []corev1.Toleration
	for _, m := range list {
		var one corev1.Toleration
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(m.(map[string]any), &one))
		have = append(have, one)
	}
	for _, taint := range taints {
		ok := slices.ContainsFunc(have, func(one corev1.Toleration) bool {
			return (one.Key == "" || one.Key == taint.Key) && (one.Effect == "" || one.Effect == taint.Effect) &&
				(one.Operator == corev1.TolerationOpExists || one.Value == taint.Value)
		})
		assert.True(t, ok, "%s %s does not tolerate %s=%s:%s", u.GetKind(), u.GetName(), taint.Key, taint.Value, taint.Effect)
	}
}

// Longhorn's chart lists what it takes as a drain policy for people who click.
func TestDrainPoliciesAreTheCharts(t *testing.T) {
	text := facts.Load(t, filepath.Join("testdata", "facts", "longhorn-drain.json"), *update, func(full fs.FS) ([]byte, error) {
		raw, err := fs.ReadFile(full, "charts/longhorn/questions.yaml")
		if err != nil {
			return nil, err
		}
		var doc any
		if err := yaml.Unmarshal(raw, &doc); err != nil {
			return nil, err
		}
		q := question(doc, "defaultSettings.nodeDrainPolicy")
		return json.Marshal(drainFacts{Options: q["options"], Default: q["default"]})
	})
	var theirs drainFacts
	require.NoError(t, json.Unmarshal(text, &theirs))
	field, ok := reflect.TypeFor[spec.Longhorn]().FieldByName("DrainPolicy")
	require.True(t, ok)
	var ours []any
	for policy := range strings.SplitSeq(field.Tag.Get("enum"), ",") {
		ours = append(ours, policy)
	}
	assert.ElementsMatch(t, theirs.Options, ours)
	assert.Equal(t, theirs.Default, field.Tag.Get("default"))
}

type drainFacts struct {
	Options any `json:"options"`
	Default any `json:"default"`
}

// question finds a question of questions.yaml by its variable.
func question(v any, variable string) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		if v["variable"] == variable {
			return v
		}
		for _, e := range v {
			if q := question(e, variable); q != nil {
				return q
			}
		}
	case []any:
		for _, e := range v {
			if q := question(e, variable); q != nil {
				return q
			}
		}
	}
	return nil
}

// Keys that no values.yaml has, those of the charts inside a chart included.
func TestNoUnknownKeys(t *testing.T) {
	inComments := []string{"hostname", "storageClass.provisionerName", "grafana.ingress.ingressClassName"}
	source := helm.Source{Folder: facts.Charts(t, *charts), AnyVersion: true, Offline: true}
	for _, s := range samples(t) {
		if s.part.Release == nil {
			continue
		}
		unknown, err := source.UnknownValues(t.Context(), *s.part.Release)
		require.NoError(t, err)
		unknown = slices.DeleteFunc(unknown, func(path string) bool {
			return slices.Contains(inComments, path) || strings.HasPrefix(path, `grafana["grafana.ini"]`)
		})
		assert.Empty(t, unknown, s.name)
	}
}
