package jupyterhub

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/sim/facts"
)

// charts is a folder of the real charts, unpacked, as `helm pull --untar` leaves them.
var charts = flag.String("charts", "", "folder with the real chart of JupyterHub, for rendering with it")

// TestRealChart: the chart's own templates and checks take every kind of hub.
func TestRealChart(t *testing.T) {
	source := helm.Source{Folder: facts.Charts(t, *charts), AnyVersion: true, Offline: true, Cache: t.TempDir()}
	can := helm.Capabilities{Kubernetes: "v1.36.5+k3s1"}
	for name, h := range hubs() {
		t.Run(name, func(t *testing.T) {
			release, err := installation{h}.release()
			require.NoError(t, err)
			require.NoError(t, source.Check(t.Context(), release, can))
			manifest, err := source.Render(t.Context(), release, can)
			require.NoError(t, err)
			requireRendered(t, h, string(manifest))
		})
	}
}

func requireRendered(t *testing.T, h Hub, manifest string) {
	t.Helper()
	kinds := map[string]int{}
	for _, doc := range strings.Split(manifest, "\n---") {
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		require.NoError(t, kyaml.Unmarshal([]byte(doc), &head))
		kinds[head.Kind]++
		require.NotEqual(t, "user-scheduler", head.Metadata.Name)
		switch head.Kind + "/" + head.Metadata.Name {
		case "Deployment/hub":
			var d appsv1.Deployment
			require.NoError(t, kyaml.UnmarshalStrict([]byte(doc), &d))
			pod := d.Spec.Template.Spec
			require.True(t, mounts(pod, secretName), "the hub mounts our Secret")
			require.Subset(t, pod.Tolerations, tolerate(h.Taints))
			if h.Database.Kind == Postgres {
				require.Contains(t, pod.Containers[0].Args, "--upgrade-db")
			}
		case "Ingress/jupyterhub":
			var i networkingv1.Ingress
			require.NoError(t, kyaml.UnmarshalStrict([]byte(doc), &i))
			require.Equal(t, h.Hostname, i.Spec.Rules[0].Host)
			require.Equal(t, h.Ingress.TLSSecret, i.Spec.TLS[0].SecretName)
		case "PersistentVolumeClaim/hub-db-dir":
			require.True(t, strings.Contains(doc, "helm.sh/resource-policy: keep"))
		case "Service/proxy-public":
			var s corev1.Service
			require.NoError(t, kyaml.UnmarshalStrict([]byte(doc), &s))
			require.Equal(t, h.Ingress.Kind == ByLoadBalancer, s.Spec.Type == corev1.ServiceTypeLoadBalancer)
		}
	}
	require.Equal(t, isOn(h.Isolate), kinds["NetworkPolicy"] == 3, "%v", kinds)
	require.Equal(t, h.PrePull, kinds["DaemonSet"] == 1, "%v", kinds)
	require.Equal(t, h.Ingress.Kind == ByGateway, kinds["HTTPRoute"] == 1, "%v", kinds)
	require.Equal(t, h.Database.Kind != Postgres, kinds["PersistentVolumeClaim"] == 1, "%v", kinds)
}

func mounts(pod corev1.PodSpec, name string) bool {
	for _, v := range pod.Volumes {
		if v.Secret != nil && v.Secret.SecretName == name {
			return true
		}
	}
	return false
}
