package cluster_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/images"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// wholePlatform is nearly everything that a file can ask for, beside eight GPUs.
const wholePlatform = `
storage:
  default: nfs
  nfs:
    server: 10.0.0.5
    export: /export/k3s
    shares:
      datasets: {export: /export/datasets, readOnly: true}
  scratch: {}
loadBalancer:
  kind: metallb
  addresses: [10.0.0.200-10.0.0.220]
  reserved: {ingress: 10.0.0.200}
tls: self-signed
rancher: {hostname: rancher.lab.example}
monitoring: {hostname: grafana.lab.example}
hub:
  hostname: hub.lab.example
  auth: dummy
  shared:
    datasets: {path: /datasets}
  scratch: {size: 50GiB}
`

func TestWholePlatform(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, withPlatform(t, "eight-a100", wholePlatform))
		w.up(t, spec)
		before := w.now()
		assert.Empty(t, w.plan(t, spec))
		report := w.up(t, spec)
		assert.Equal(t, len(report.Steps), report.Count(converge.Unchanged))
		assert.Equal(t, changes{}, before.changes())
		w.listsImages(t, spec)
	})
}

// listsImages expects that every image of a running pod is in the list for the file.
func (w *world) listsImages(t *testing.T, s *spec.Spec) {
	t.Helper()
	list, err := images.NewList(t.Context(), s, helm.Source{Cache: t.TempDir()}, nil)
	require.NoError(t, err)
	var names []string
	for _, i := range list.Images {
		names = append(names, i.Name)
	}
	c := w.cluster(t, s)
	defer c.Close()
	client, err := c.Kube(t.Context())
	require.NoError(t, err)
	running := 0
	for _, n := range s.Nodes {
		pods, err := client.NodePods(t.Context(), n.Name)
		require.NoError(t, err)
		for _, p := range pods {
			for _, container := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
				running++
				assert.Contains(t, names, images.Full(container.Image), "%s/%s", p.Namespace, p.Name)
			}
		}
	}
	assert.Greater(t, running, 40)
}

// TestMeasurePlatform prints what a look at the whole platform takes when nothing is
// to be done: for real, and in requests to Kubernetes.
func TestMeasurePlatform(t *testing.T) {
	if !*measure {
		t.Skip("-measure prints it")
	}
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, withPlatform(t, "eight-a100", wholePlatform))
		w.up(t, spec)
		for range 3 {
			asked, begun := len(w.kube.Clusters()[0].Requests()), wall()
			w.up(t, spec)
			kinds := map[string]int{}
			for _, r := range w.kube.Clusters()[0].Requests()[asked:] {
				kinds[r.Method]++
			}
			t.Logf("%s, %d steps, requests to Kubernetes: %v", (wall() - begun).Round(time.Millisecond), w.steps(t, spec), kinds)
		}
	})
}

// steps is how many steps up has.
func (w *world) steps(t testing.TB, spec *spec.Spec) int {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	return len(c.Up().Names())
}

// The examples come up as they are, and there is nothing to do the second time.
func TestExamplesWithTheirPlatforms(t *testing.T) {
	for name, model := range map[string]pvesim.Model{"eight-a100": pvesim.EightA100(), "one-gpu": pvesim.OneGPU()} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, model, func(t *testing.T, w *world) {
				text := lab(wholeExample(t, name)) + "\ncharts: {folder: " + charts(t) + ", offline: true}\n"
				spec := parse(t, text)
				w.up(t, spec)
				before := w.now()
				assert.Empty(t, w.plan(t, spec))
				assert.Empty(t, changedSteps(w.up(t, spec)))
				assert.Equal(t, changes{}, before.changes())
			})
		})
	}
}
