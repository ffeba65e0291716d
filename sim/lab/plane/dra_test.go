package plane_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// draObjects are those of the part, as a manifest.
func draObjects(t *testing.T, n spec.Node) []byte {
	t.Helper()
	part := addon.DRADriver{NVIDIA: spec.NVIDIA{Stack: spec.StackDRA}, Nodes: []spec.Node{n}}
	recipe, err := part.Make(&addon.Site{Nodes: part.Nodes})
	require.NoError(t, err)
	var out bytes.Buffer
	for _, object := range recipe.Objects() {
		b, err := yaml.Marshal(object)
		require.NoError(t, err)
		out.WriteString("---\n" + string(b))
	}
	return out.Bytes()
}

// By DRA pods request GPUs as before: the scheduler makes their claims.
func TestGPUsByDRA(t *testing.T) { labtest.OnEither(t, gpusByDRA) }

func gpusByDRA(t *testing.T, kind labctl.Guests) {
	f := factory(t, kind)
	p, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}, Version: "v1.36.5+k3s1"})
	require.NoError(t, err)
	c := client(t, p)
	w := newWorker("wk-dra", "10.0.0.41", 2)
	w.Labels = map[string]string{nvidia.LabelPresent: "true"}
	require.NoError(t, p.Join(t.Context(), w.Node))
	require.NoError(t, p.Apply(t.Context(), draObjects(t, spec.Node{Name: w.Name})))
	ours, err := kube.New(kube.Config{Kubeconfig: p.Kubeconfig("https://" + vip + ":6443"), Devices: addon.DRADevices(), Dial: dialer(p)})
	require.NoError(t, err)
	offers := func(want int64) func(context.Context) error {
		return func(ctx context.Context) error {
			n, err := ours.Node(ctx, w.Name)
			if err != nil {
				return err
			}
			return is("GPUs", want, n.Count(nvidia.Resource))
		}
	}
	eventually(t, 30*time.Second, "two GPUs are published", offers(2))
	node, err := c.CoreV1().Nodes().Get(t.Context(), w.Name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotContains(t, node.Status.Allocatable, nvidia.Resource, "the node's status says nothing of them")

	// The Job's two GPUs are all: the next pod waits, and the scheduler says why in words of its own.
	_, job, _ := strings.Cut(gpuManifest, "kind: DaemonSet")
	_, job, _ = strings.Cut(job, "\n---\n")
	require.NoError(t, p.Apply(t.Context(), []byte(job)))
	eventually(t, 30*time.Second, "the Job's pod succeeded", func(ctx context.Context) error {
		message, err := podMessage(ctx, c, "job-name=verify")
		if err != nil {
			return err
		}
		return is("message", "sh /verify/verify.sh wk-dra on wk-dra: a script, 2 GPUs GPU-wk-dra-0,GPU-wk-dra-1", message)
	})
	for _, name := range []string{"one", "two"} {
		_, err = c.CoreV1().Pods("default").Create(t.Context(), gpuPod(name, "1"), metav1.CreateOptions{})
		require.NoError(t, err)
		eventually(t, 30*time.Second, name+" runs", func(ctx context.Context) error { return is("phase", "Running", state(ctx, c, name)) })
	}
	for name, gpus := range map[string]string{"third": "1", "big": "3"} {
		_, err = c.CoreV1().Pods("default").Create(t.Context(), gpuPod(name, gpus), metav1.CreateOptions{})
		require.NoError(t, err)
		eventually(t, 30*time.Second, name+" waits", func(ctx context.Context) error {
			have := state(ctx, c, name)
			return is("told", true, strings.HasPrefix(have, "Pending: ") && kube.Lacks(have, nvidia.Resource))
		})
		t.Log(state(t.Context(), c, name))
	}
	require.NoError(t, c.CoreV1().Pods("default").Delete(t.Context(), "one", metav1.DeleteOptions{}))
	eventually(t, 60*time.Second, "third has the GPU of one", func(ctx context.Context) error { return is("phase", "Running", state(ctx, c, "third")) })

	require.NoError(t, c.AppsV1().DaemonSets(addon.DRADriverNamespace).Delete(t.Context(), addon.DRADriverName, metav1.DeleteOptions{}))
	eventually(t, 60*time.Second, "without the driver there are none", offers(0))
}
