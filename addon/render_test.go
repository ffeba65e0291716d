package addon_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/addon"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// charts is a folder of the real charts, unpacked, as `helm pull --untar` leaves them.
var charts = flag.String("charts", "", "folder of the real charts, for rendering every part with them")

var capabilities = chart.Capabilities{Kubernetes: "v1.36.5+k3s1", APIs: []string{
	"monitoring.coreos.com/v1", "monitoring.coreos.com/v1/ServiceMonitor", "cert-manager.io/v1", "gateway.networking.k8s.io/v1"}}

// Every part renders with its real chart, and everything in it that makes pods
// tolerates every taint.
func TestRender(t *testing.T) {
	if *charts == "" {
		t.Skip("SKIPPED: no -charts=FOLDER: nothing was rendered with the real charts")
	}
	source := chart.Source{Folder: *charts, AnyVersion: true, Offline: true}
	for _, s := range samples(t) {
		if s.part.Release == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			require.NoError(t, source.Validate(t.Context(), *s.part.Release, capabilities))
			manifest, err := source.Render(t.Context(), *s.part.Release, capabilities)
			require.NoError(t, err)
			objects, err := kube.Decode(manifest)
			require.NoError(t, err)
			require.NotEmpty(t, objects)
			rich := s.name != s.part.Name || slices.Contains([]string{"cephfs", "dcgm-exporter", "metallb", "scratch"}, s.name)
			for _, o := range objects {
				u := o.(*unstructured.Unstructured)
				assert.NotEqual(t, "StorageClass", u.GetKind(), "storage classes are ours")
				if rich && s.name != "scratch-label" && s.name != "monitoring-gateway" {
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
	text, err := os.ReadFile(filepath.Join(*charts, "longhorn", "questions.yaml"))
	if *charts == "" || err != nil {
		t.Skip("SKIPPED: no -charts=FOLDER with longhorn: the drain policies were not compared with the chart's")
	}
	var doc any
	require.NoError(t, yaml.Unmarshal(text, &doc))
	q := question(doc, "defaultSettings.nodeDrainPolicy")
	require.NotNil(t, q)
	var theirs []string
	for _, o := range q["options"].([]any) {
		theirs = append(theirs, fmt.Sprint(o))
	}
	assert.ElementsMatch(t, theirs, addon.DrainPolicies())
	assert.Equal(t, q["default"], addon.DrainPolicies()[0])
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
	if *charts == "" {
		t.Skip("SKIPPED: no -charts=FOLDER: keys of charts inside charts were not checked")
	}
	inComments := []string{"hostname", "storageClass.provisionerName", "grafana.ingress.ingressClassName"}
	source := chart.Source{Folder: *charts, AnyVersion: true, Offline: true}
	for _, s := range samples(t) {
		if s.part.Release == nil {
			continue
		}
		unknown, err := source.Unknown(t.Context(), *s.part.Release)
		require.NoError(t, err)
		unknown = slices.DeleteFunc(unknown, func(path string) bool {
			return slices.Contains(inComments, path) || strings.HasPrefix(path, `grafana["grafana.ini"]`)
		})
		assert.Empty(t, unknown, s.name)
	}
}
