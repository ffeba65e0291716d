package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// oneLine is a file whose GPUs are shared by one line of it, with a hub whose profiles ask for
// what they offer.
const oneLine = `
name: share
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
defaults: {storage: vmdata}
nvidia: {sharing: SHARING}
nodes:
  cp1: {role: server, address: 10.0.0.11, cores: 2, memory: 4GiB}
  gpu1: {role: agent, address: 10.0.0.21, cores: 32, memory: 64GiB, gpus: 2}
hub:
  hostname: hub.lab.example
  auth: {dummy: {password: env:HUB_PASSWORD}}
  profiles:
    one: {PROFILE, cpu: 1, memory: 2GiB, image: "quay.io/jupyter/scipy-notebook:2026-10-05"}
`

// requesting is a pod's Deployment that requests so much of a resource.
func requesting(name, what string, count int64) *appsv1.Deployment {
	d := lodger(name, "gpu1", 0)
	d.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceName(what): *resource.NewQuantity(count, resource.DecimalSI)}
	class := nvidia.RuntimeClass
	d.Spec.Template.Spec.RuntimeClassName = &class
	return d
}

// Failure N6, sharing that enforces nothing or blocks everything: of each way of sharing, one
// line becomes what Kubernetes allocates, as many servers of a profile as the plan promised run,
// and one more waits with the scheduler's word for what is missing.
func TestSharingFromOneLine(t *testing.T) {
	rows := []string{"| `nvidia.sharing` | the node offers | profile | servers at once | one more waits |", "|---|---|---|---|---|"}
	for _, x := range []struct {
		name             string
		sharing, profile string
		offers           map[string]int64
		resource         string
		atOnce           int
	}{
		{"whole", "{strategy: none}", "gpus: 1", map[string]int64{"nvidia.com/gpu": 2}, "nvidia.com/gpu", 2},
		{"time-slicing", "{strategy: time-slicing, replicas: 3}", "gpus: 1", map[string]int64{"nvidia.com/gpu": 6}, "nvidia.com/gpu", 6},
		{"mps", "{strategy: mps, replicas: 4}", "gpus: 1, gpuMemory: 8GiB", map[string]int64{"nvidia.com/gpu": 8}, "nvidia.com/gpu", 8},
		{"mig, alike", "{strategy: mig, layouts: [{profiles: {3g.20gb: 2}}]}", "gpus: 1", map[string]int64{"nvidia.com/gpu": 4}, "nvidia.com/gpu", 4},
		{"mig, mixed", "{strategy: mig, layouts: [{gpus: [1], profiles: {3g.20gb: 1, 1g.5gb: 3}}]}", "mig: 1g.5gb",
			map[string]int64{"nvidia.com/gpu": 1, "nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-1g.5gb": 3}, "nvidia.com/mig-1g.5gb", 3},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Setenv("HUB_PASSWORD", "lab only")
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				whole := parse(t, strings.NewReplacer("SHARING", x.sharing, "PROFILE", x.profile).Replace(oneLine))
				fit := platform.Fit(whole)
				require.Len(t, fit.Rows, 1)
				assert.Equal(t, x.atOnce, fit.Rows[0].Total, "what the plan promises: %+v", fit.Rows)

				s := *whole
				s.Platform = spec.Platform{}
				w.up(t, &s)
				assert.Equal(t, x.offers, w.offers(t)["gpu1"])
				objects := w.api(t)
				for i := range x.atOnce + 1 {
					_, err := objects.Apply(t.Context(), requesting(fmt.Sprintf("user%d", i), x.resource, 1))
					require.NoError(t, err)
				}
				time.Sleep(time.Minute)
				running, said := w.pods(t, "default")
				assert.Equal(t, x.atOnce, running)
				require.Len(t, said, 1)
				_, waits, _ := strings.Cut(said[0], ": 1 ")
				waits, _, _ = strings.Cut(waits, ",")
				rows = append(rows, fmt.Sprintf("| `%s` | %s | `%s` | %d | `%s` |", x.sharing, offer.GPUsOf(node(t, whole, "gpu1")), x.profile, running, waits))
				assert.Contains(t, said[0], "0/2 nodes are available: 1 Insufficient "+x.resource+", 1 node(s) didn't match Pod's node affinity/selector.")
			})
		})
	}
	docBlock(t, "../docs/sharing.md", "sharing", strings.Join(rows, "\n")+"\n")
}

func node(t testing.TB, s *spec.Spec, name string) spec.Node {
	t.Helper()
	n, ok := s.Node(name)
	require.True(t, ok)
	return n
}

// pods are how many of a namespace run, and what is said of those that cannot.
func (w *world) pods(t testing.TB, namespace string) (running int, said []string) {
	t.Helper()
	w.kube.Clusters()[0].Each(func(resource string, object map[string]any) {
		meta, _ := object["metadata"].(map[string]any)
		status, _ := object["status"].(map[string]any)
		if resource != "pods" || meta["namespace"] != namespace {
			return
		}
		if status["phase"] == string(corev1.PodRunning) {
			running++
			return
		}
		conditions, _ := status["conditions"].([]any)
		for _, c := range conditions {
			if c, _ := c.(map[string]any); c["type"] == string(corev1.PodScheduled) && c["message"] != nil {
				said = append(said, fmt.Sprint(c["message"]))
			}
		}
	})
	return running, said
}
