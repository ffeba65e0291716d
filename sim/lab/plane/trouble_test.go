package plane_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// job is one that runs a command, with what change does to its pod.
func job(name string, change func(*corev1.PodSpec)) *batchv1.Job {
	none := int32(0)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	j.Spec.BackoffLimit = &none
	j.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Tolerations:   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers:    []corev1.Container{{Name: "main", Image: "cuda", Command: []string{"check"}}},
	}
	change(&j.Spec.Template.Spec)
	return j
}

// pod is the one of a Job, when it is there.
func podOf(ctx context.Context, c kubernetes.Interface, job string) (*corev1.Pod, error) {
	pods, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + job})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("Job %s has %d pods", job, len(pods.Items))
	}
	return &pods.Items[0], nil
}

func event(ctx context.Context, c kubernetes.Interface, pod *corev1.Pod, reason string) (string, error) {
	events, err := c.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID) + ",reason=" + reason})
	if err != nil {
		return "", err
	}
	if len(events.Items) == 0 {
		return "", fmt.Errorf("no event %s", reason)
	}
	return events.Items[0].Message, nil
}

func TestWhatGoesWrong(t *testing.T) { labtest.OnEither(t, whatGoesWrong) }

func whatGoesWrong(t *testing.T, kind labctl.Guests) {
	f := factory(t, kind)
	p, err := f.Form(t.Context(), guest.PlaneConfig{
		TLSSANs: []string{vip}, PodCIDR: netip.MustParsePrefix("10.62.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.63.0.0/16"),
		SecondCIDRs: [2]netip.Prefix{netip.MustParsePrefix("fd63::/112"), netip.MustParsePrefix("fd62::/56")},
	})
	require.NoError(t, err)
	c := client(t, p)
	w := newWorker("wk-1", "10.0.0.21", 0)
	w.Run = func(_ context.Context, c guest.Container) (int, string, string) {
		return 3, strings.Repeat("line\n", 100) + "no CUDA-capable device is detected\n", c.Env["SAY"]
	}
	require.NoError(t, p.Join(t.Context(), w.Node))
	eventually(t, 15*time.Second, "the node is Ready", func(ctx context.Context) error { return ready(ctx, c, w.Name, corev1.ConditionTrue) })

	t.Run("networks", func(t *testing.T) { hasNetworks(t, c) })
	t.Run("a list in parts", func(t *testing.T) { listsInParts(t, c) })
	t.Run("no runtime", func(t *testing.T) { hasNoRuntime(t, c, w) })
	t.Run("a command fails", func(t *testing.T) { commandFails(t, c) })
	t.Run("a config map is missing", func(t *testing.T) { configMapIsMissing(t, c) })
	t.Run("GPUs that are gone", func(t *testing.T) { gpusAreGone(t, c, w) })
	t.Run("taints without an effect", func(t *testing.T) {
		bad := newWorker("wk-2", "10.0.0.22", 0)
		bad.Taints = []string{"gpu=yes"}
		assert.ErrorContains(t, p.Join(t.Context(), bad.Node), `node wk-2: taint "gpu=yes" has no effect`)
	})
	t.Run("a manifest that is refused in part", func(t *testing.T) { manifestInPart(t, p, c) })
	t.Run("the next cluster is another", func(t *testing.T) { nextCluster(t, f, p) })
}

func hasNetworks(t *testing.T, c kubernetes.Interface) {
	service, err := c.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{"10.63.0.1"}, service.Spec.ClusterIPs)
	v4, v6 := corev1.IPv4Protocol, corev1.IPv6Protocol
	single, prefer, require2 := corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	for _, tc := range []struct {
		policy   *corev1.IPFamilyPolicy
		headless bool
		asks     []corev1.IPFamily
		becomes  corev1.IPFamilyPolicy
		families []corev1.IPFamily
	}{
		{nil, false, nil, single, []corev1.IPFamily{v4}},
		{nil, false, []corev1.IPFamily{v6}, single, []corev1.IPFamily{v6}},
		{nil, true, nil, require2, []corev1.IPFamily{v4, v6}},
		{&prefer, false, nil, prefer, []corev1.IPFamily{v4, v6}},
		{&require2, false, []corev1.IPFamily{v6}, require2, []corev1.IPFamily{v6, v4}},
	} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{GenerateName: "family-"}, Spec: corev1.ServiceSpec{
			IPFamilyPolicy: tc.policy, IPFamilies: tc.asks, Ports: []corev1.ServicePort{{Port: 80}}}}
		if tc.headless {
			s.Spec.ClusterIP = corev1.ClusterIPNone
		}
		made, err := c.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, tc.becomes, *made.Spec.IPFamilyPolicy)
		assert.Equal(t, tc.families, made.Spec.IPFamilies)
		if tc.headless {
			assert.Equal(t, []string{"None"}, made.Spec.ClusterIPs)
			continue
		}
		require.Len(t, made.Spec.ClusterIPs, len(tc.families))
		for i, family := range tc.families {
			assert.Contains(t, made.Spec.ClusterIPs[i], map[corev1.IPFamily]string{v4: "10.63.", v6: "fd63::"}[family])
		}
	}
	eventually(t, 10*time.Second, "the node has a pod CIDR", func(ctx context.Context) error {
		node, err := c.CoreV1().Nodes().Get(ctx, "wk-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return is("pod CIDRs", "10.62.0.0/24 fd62::/64", strings.Join(node.Spec.PodCIDRs, " "))
	})
}

// listsInParts is how cluster:backup counts.
func listsInParts(t *testing.T, c kubernetes.Interface) {
	part, err := c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	require.NotNil(t, part.RemainingItemCount)
	all, err := c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, all.Items, len(part.Items)+int(*part.RemainingItemCount))
}

func hasNoRuntime(t *testing.T, c kubernetes.Interface, w *worker) {
	nvidia := "nvidia"
	_, err := c.BatchV1().Jobs("default").Create(t.Context(), job("no-runtime", func(s *corev1.PodSpec) { s.RuntimeClassName = &nvidia }), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, 10*time.Second, "the pod is ContainerCreating and says why", func(ctx context.Context) error {
		pod, err := podOf(ctx, c, "no-runtime")
		if err != nil {
			return err
		}
		message, err := event(ctx, c, pod, "FailedCreatePodSandBox")
		if err != nil {
			return err
		}
		assert.Contains(t, message, `no runtime for "nvidia" is configured`)
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Waiting == nil {
			return fmt.Errorf("no waiting container")
		}
		return is("reason", "ContainerCreating", pod.Status.ContainerStatuses[0].State.Waiting.Reason)
	})
	w.gpus.Store(1)
	defer w.gpus.Store(0)
	eventually(t, 10*time.Second, "it goes on when the runtime is there", func(ctx context.Context) error {
		pod, err := podOf(ctx, c, "no-runtime")
		if err != nil {
			return err
		}
		return is("phase", corev1.PodFailed, pod.Status.Phase) // its command fails, but it ran
	})
}

func commandFails(t *testing.T, c kubernetes.Interface) {
	_, err := c.BatchV1().Jobs("default").Create(t.Context(), job("silent", func(s *corev1.PodSpec) {
		s.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.BatchV1().Jobs("default").Create(t.Context(), job("talking", func(s *corev1.PodSpec) {
		s.Containers[0].Env = []corev1.EnvVar{{Name: "WHAT", Value: "cuInit"}, {Name: "SAY", Value: "$(WHAT) failed on $(NOTHING)"}}
	}), metav1.CreateOptions{})
	require.NoError(t, err)
	for name, want := range map[string]string{"silent": "no CUDA-capable device is detected\n", "talking": "cuInit failed on $(NOTHING)"} {
		eventually(t, 10*time.Second, name+" has failed", func(ctx context.Context) error {
			pod, err := podOf(ctx, c, name)
			if err != nil {
				return err
			}
			if pod.Status.Phase != corev1.PodFailed {
				return fmt.Errorf("pod is %s", pod.Status.Phase)
			}
			state := pod.Status.ContainerStatuses[0].State.Terminated
			assert.Equal(t, int32(3), state.ExitCode)
			assert.Equal(t, "Error", state.Reason)
			assert.True(t, strings.HasSuffix(state.Message, want), state.Message)
			assert.LessOrEqual(t, len(state.Message), 2048)
			return nil
		})
	}
	eventually(t, 10*time.Second, "the Job has failed", func(ctx context.Context) error {
		j, err := c.BatchV1().Jobs("default").Get(ctx, "silent", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return is("failed pods", int32(1), j.Status.Failed)
	})
}

func configMapIsMissing(t *testing.T, c kubernetes.Interface) {
	_, err := c.BatchV1().Jobs("default").Create(t.Context(), job("unmounted", func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "script", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "nowhere"}}}}}
	}), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, 10*time.Second, "the pod says what it waits for", func(ctx context.Context) error {
		pod, err := podOf(ctx, c, "unmounted")
		if err != nil {
			return err
		}
		message, err := event(ctx, c, pod, "FailedMount")
		if err != nil {
			return err
		}
		assert.Equal(t, corev1.PodPending, pod.Status.Phase)
		return is("event", `MountVolume.SetUp failed for volume "script" : configmaps "nowhere" not found`, message)
	})
}

// gpusAreGone asks for a GPU on a node by name, past the scheduler.
func gpusAreGone(t *testing.T, c kubernetes.Interface, w *worker) {
	pod := gpuPod("greedy", "1")
	pod.Spec.NodeName = w.Name
	_, err := c.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, 10*time.Second, "the kubelet refuses the pod", func(ctx context.Context) error {
		pod, err := c.CoreV1().Pods("default").Get(ctx, "greedy", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("pod is %s", pod.Status.Phase)
		}
		assert.Contains(t, pod.Status.Message, "Requested: 1, Available: 0")
		return is("reason", "UnexpectedAdmissionError", pod.Status.Reason)
	})
}

func manifestInPart(t *testing.T, p guest.Plane, c kubernetes.Interface) {
	const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: Not_A_Name}
---
# nothing
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: example.org/v1
kind: Thing
metadata: {name: first}
`
	err := p.Apply(t.Context(), []byte(manifest))
	require.ErrorContains(t, err, "ConfigMap Not_A_Name")
	assert.NotContains(t, err.Error(), "Thing", "a kind that was defined a moment ago")
	_, err = c.CoreV1().ConfigMaps("default").Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
}

func nextCluster(t *testing.T, f interface {
	Form(context.Context, guest.PlaneConfig) (guest.Plane, error)
}, p guest.Plane) {
	require.NoError(t, p.Close())
	_, err := p.Dial(t.Context())
	require.Error(t, err, "the first cluster is gone")
	next, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}})
	require.NoError(t, err)
	c := client(t, next)
	nodes, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, nodes.Items)
	_, err = c.NodeV1().RuntimeClasses().Get(t.Context(), "nvidia", metav1.GetOptions{})
	require.NoError(t, err)
}
