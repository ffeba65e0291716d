package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestVerifyImages: each Job computes in the image that the file names for it.
func TestVerifyImages(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		images := map[string]string{"cuda": "registry.lan/cuda:12.9.1", "pytorch": "registry.lan/pytorch:2.8.0", "tensorflow": "registry.lan/tensorflow:2.19.0-gpu"}
		line := "nvidia:\n  verify: {images: {cuda: " + images["cuda"] + ", pytorch: " + images["pytorch"] + ", tensorflow: " + images["tensorflow"] + "}}\n"
		spec := parse(t, replace(t, example(t, "eight-a100"), "nvidia:\n", line))
		w.up(t, spec)
		c := w.cluster(t, spec)
		defer c.Close()
		graph, v := c.GPUVerify(cluster.VerifyFull, time.Minute)
		_, err := graph.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		jobs, err := w.api(t).List(t.Context(), "batch/v1", "Job", "nvidia-device-plugin", "")
		require.NoError(t, err)
		used := map[string]bool{}
		for _, j := range jobs {
			containers, _, err := unstructured.NestedSlice(j.Object, "spec", "template", "spec", "containers")
			require.NoError(t, err)
			for _, c := range containers {
				image, _, _ := unstructured.NestedString(c.(map[string]any), "image")
				used[image] = true
			}
		}
		for key, image := range images {
			assert.True(t, used[image], "%s: no Job ran in %s, but in %v", key, image, used)
		}
		require.NoError(t, v.Clean(t.Context()))
	})
}
