package plane_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// shared are the ways of sharing one GPU, with what becomes allocatable, what a pod may request,
// and what it may not.
func shared() []sharedCase {
	return []sharedCase{
		{name: "slices", options: addon.PluginOptions{Sharing: spec.SharingTimeSlicing, Replicas: 4}, offers: "nvidia.com/gpu=4",
			fits: "nvidia.com/gpu=1", tooMuch: "nvidia.com/gpu=5", answer: "Insufficient nvidia.com/gpu",
			// Two shares may be of one GPU: the plugin refuses what the scheduler allows.
			refused: "nvidia.com/gpu=2", words: "Requested: 2, Available: 1"},
		{name: "mps", options: addon.PluginOptions{Sharing: spec.SharingMPS, Replicas: 3}, offers: "nvidia.com/gpu=3",
			fits: "nvidia.com/gpu=1", tooMuch: "nvidia.com/gpu=4", answer: "Insufficient nvidia.com/gpu",
			refused: "nvidia.com/gpu=2", words: "Requested: 2, Available: 1"},
		{name: "alike", options: addon.PluginOptions{MIG: nvidia.MIGSingle}, profiles: []string{"3g.20gb", "3g.20gb"}, offers: "nvidia.com/gpu=2",
			fits: "nvidia.com/gpu=1", tooMuch: "nvidia.com/gpu=3", answer: "Insufficient nvidia.com/gpu"},
		{name: "mixed", options: addon.PluginOptions{MIG: nvidia.MIGMixed}, profiles: []string{"3g.20gb", "1g.5gb", "1g.5gb", "1g.5gb+me"},
			offers: "nvidia.com/mig-1g.5gb=2 nvidia.com/mig-1g.5gb.me=1 nvidia.com/mig-3g.20gb=1",
			fits:   "nvidia.com/mig-1g.5gb=2", tooMuch: "nvidia.com/mig-3g.20gb=2", answer: "Insufficient nvidia.com/mig-3g.20gb"},
	}
}

type sharedCase struct {
	name                          string
	options                       addon.PluginOptions
	profiles                      []string // of the instances of the GPU
	offers, fits, tooMuch, answer string
	refused, words                string
}

func (x sharedCase) node(i int) guest.Node {
	w := newWorker("wk-"+x.name, fmt.Sprintf("10.0.0.%d", 31+i), 0)
	gpu := guest.GPU{UUID: "GPU-" + x.name, Model: "NVIDIA A100-PCIE-40GB", MIG: len(x.profiles) > 0}
	for n, profile := range x.profiles {
		gpu.Instances = append(gpu.Instances, guest.GPUInstance{UUID: fmt.Sprintf("MIG-%s-%d", x.name, n), Profile: profile})
	}
	w.GPUs = func() []guest.GPU { return []guest.GPU{gpu} }
	w.Labels = map[string]string{nvidia.LabelPresent: "true", "sharing": x.name}
	return w.Node
}

// plugin is the device plugin for the nodes of the case, as a manifest.
func (x sharedCase) plugin(t *testing.T) []byte {
	t.Helper()
	o := x.options
	o.Name, o.Nodes = nvidia.PluginName+"-"+x.name, map[string]string{"sharing": x.name}
	objects, err := addon.DevicePlugin(o)
	require.NoError(t, err)
	var out bytes.Buffer
	for _, object := range objects {
		b, err := yaml.Marshal(object)
		require.NoError(t, err)
		out.WriteString("---\n" + string(b))
	}
	return out.Bytes()
}

// pod requests GPUs on the case's node, written as NAME=COUNT.
func (x sharedCase) pod(name, request string) *corev1.Pod {
	resource, count, _ := strings.Cut(request, "=")
	p := gpuPod(x.name+"-"+name, "1")
	p.Spec.NodeSelector = map[string]string{"sharing": x.name}
	p.Spec.Containers[0].Resources.Limits = quantity(corev1.ResourceName(resource), count)
	return p
}

// Each way of sharing, in a real control plane: what the plugin registers, what a pod gets, and
// what it is refused.
func TestSharedGPUsAreAllocatedAndRefused(t *testing.T) { labtest.OnEither(t, sharedGPUs) }

func sharedGPUs(t *testing.T, kind labctl.Guests) {
	f := factory(t, kind)
	p, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}, Version: "v1.36.5+k3s1"})
	require.NoError(t, err)
	c := client(t, p)
	for i, x := range shared() {
		require.NoError(t, p.Join(t.Context(), x.node(i)))
		require.NoError(t, p.Apply(t.Context(), x.plugin(t)))
	}
	for _, x := range shared() {
		eventually(t, 30*time.Second, x.name+" offers "+x.offers, func(ctx context.Context) error { return is("offers", x.offers, offersOf(ctx, c, "wk-"+x.name)) })
		for name, request := range map[string]string{"fits": x.fits, "too-much": x.tooMuch, "refused": x.refused} {
			if request != "" {
				_, err := c.CoreV1().Pods("default").Create(t.Context(), x.pod(name, request), metav1.CreateOptions{})
				require.NoError(t, err)
			}
		}
	}
	for _, x := range shared() {
		eventually(t, 30*time.Second, x.name+": "+x.fits+" runs", func(ctx context.Context) error { return is("phase", "Running", state(ctx, c, x.name+"-fits")) })
		eventually(t, 30*time.Second, x.name+": "+x.tooMuch+" waits", func(ctx context.Context) error {
			have := state(ctx, c, x.name+"-too-much")
			return is("told", true, strings.HasPrefix(have, "Pending: ") && strings.Contains(have, x.answer))
		})
		if x.refused != "" {
			eventually(t, 30*time.Second, x.name+": "+x.refused+" is refused", func(ctx context.Context) error {
				have := state(ctx, c, x.name+"-refused")
				return is("told", true, strings.HasPrefix(have, "Failed: ") && strings.Contains(have, x.words))
			})
		}
	}
}

// offersOf is what is allocatable of a node's GPUs.
func offersOf(ctx context.Context, c kubernetes.Interface, name string) string {
	node, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, resource := range []corev1.ResourceName{"nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb.me", "nvidia.com/mig-3g.20gb"} {
		if q := node.Status.Allocatable[resource]; q.Value() > 0 {
			out = append(out, fmt.Sprintf("%s=%d", resource, q.Value()))
		}
	}
	return strings.Join(out, " ")
}

// state is a pod's phase, and what is said of it.
func state(ctx context.Context, c kubernetes.Interface, name string) string {
	pod, err := c.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	out := string(pod.Status.Phase)
	if pod.Status.Message != "" {
		return out + ": " + pod.Status.Message
	}
	for _, cond := range pod.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Message != "" {
			return out + ": " + cond.Message
		}
	}
	return out
}
