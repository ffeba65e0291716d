package plane_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/bastion"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
	"github.com/cps-gpu/homelab/sim/lab/plane"
)

const vip = "10.0.0.100"

func factory(t *testing.T, kind labctl.Guests) *plane.Factory {
	t.Helper()
	f := plane.New(context.WithoutCancel(t.Context()), labtest.Planes(t, kind))
	t.Cleanup(func() {
		pids := f.Processes()
		assert.NoError(t, f.Close())
		for _, pid := range pids {
			assert.NoDirExists(t, fmt.Sprintf("/proc/%d", pid), "a component outlived its plane")
		}
	})
	return f
}

// client connects as a user would: to the VIP, by way of Dial.
func client(t *testing.T, p guest.Plane) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(p.Kubeconfig("https://" + vip + ":6443"))
	require.NoError(t, err)
	config.Dial = dialer(p)
	config.QPS, config.Burst = 100, 100
	c, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return c
}

func dialer(p guest.Plane) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		if address != vip+":6443" {
			return nil, fmt.Errorf("dialled %s", address)
		}
		return p.Dial(ctx)
	}
}

func eventually(t *testing.T, limit time.Duration, what string, check func(ctx context.Context) error) {
	t.Helper()
	began := time.Now()
	var err error
	for time.Since(began) < limit {
		if err = check(t.Context()); err == nil {
			t.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond))
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.NoError(t, err, "%s within %s", what, limit)
}

func is[T comparable](what string, want, have T) error {
	if want != have {
		return fmt.Errorf("%s is %v and not %v", what, have, want)
	}
	return nil
}

// worker is a node whose GPUs can come and go.
type worker struct {
	guest.Node
	gpus atomic.Int64
}

func newWorker(name, ip string, gpus int64) *worker {
	w := &worker{}
	w.gpus.Store(gpus)
	w.Node = guest.Node{
		Name: name, Role: "agent", InternalIP: netip.MustParseAddr(ip), Version: "v1.36.5+k3s1",
		Labels: map[string]string{"gpu": "a100"}, Taints: []string{"nvidia.com/gpu=present:NoSchedule"}, CPUs: 16, Memory: 64 << 30,
		GPUs: func() []guest.GPU {
			var list []guest.GPU
			for i := range w.gpus.Load() {
				list = append(list, guest.GPU{UUID: fmt.Sprintf("GPU-%s-%d", name, i), Model: "NVIDIA A100-PCIE-40GB", Index: int(i)})
			}
			return list
		},
		Run: func(_ context.Context, c guest.Container) (int, string, string) {
			script := string(c.Files["/verify/verify.sh"])
			if script == "" {
				return 127, "sh: 0: cannot open", ""
			}
			return 0, "checked\n", fmt.Sprintf("%s on %s: %s, %d GPUs %s", strings.Join(c.Args, " "), c.Env["NODE"], script, c.GPUs, c.Env["NVIDIA_VISIBLE_DEVICES"])
		},
	}
	return w
}

const gpuManifest = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-device-plugin, namespace: kube-system}
spec:
  selector: {matchLabels: {name: nvidia-device-plugin}}
  template:
    metadata: {labels: {name: nvidia-device-plugin}}
    spec:
      runtimeClassName: nvidia
      nodeSelector: {gpu: a100}
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      containers: [{name: plugin, image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.4"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: verify, namespace: default}
data: {verify.sh: "a script"}
---
apiVersion: batch/v1
kind: Job
metadata: {name: verify, namespace: default}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      runtimeClassName: nvidia
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      volumes: [{name: script, configMap: {name: verify}}]
      containers:
      - name: verify
        image: nvidia/cuda:13.0.1-base-ubuntu24.04
        command: [sh, /verify/verify.sh, $(NODE)]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        volumeMounts: [{name: script, mountPath: /verify}]
        resources: {limits: {nvidia.com/gpu: 2}}
`

func TestClusterFromFormToVerifiedGPUs(t *testing.T) { labtest.OnEither(t, verifiedGPUs) }

func verifiedGPUs(t *testing.T, kind labctl.Guests) {
	f := factory(t, kind)
	began := time.Now()
	p, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip, "10.0.0.11", "k8s.example.org"}, Version: "v1.36.5+k3s1"})
	require.NoError(t, err)
	t.Logf("formed after %s", time.Since(began).Round(time.Millisecond))
	c := client(t, p)

	server := guest.Node{Name: "cp-1", Role: "server", InternalIP: netip.MustParseAddr("10.0.0.11"), Version: "v1.36.5+k3s1", CPUs: 4, Memory: 8 << 30}
	w := newWorker("wk-gpu1", "10.0.0.21", 2)
	require.NoError(t, p.Join(t.Context(), server))
	require.NoError(t, p.Join(t.Context(), w.Node))
	for _, name := range []string{"cp-1", "wk-gpu1"} {
		eventually(t, 15*time.Second, name+" is Ready", func(ctx context.Context) error { return ready(ctx, c, name, corev1.ConditionTrue) })
	}
	version, err := c.Discovery().ServerVersion()
	require.NoError(t, err)
	assert.Equal(t, labctl.KubernetesVersion, version.GitVersion)

	require.NoError(t, p.Apply(t.Context(), []byte(gpuManifest)))
	eventually(t, 20*time.Second, "two GPUs are allocatable", func(ctx context.Context) error { return allocatable(ctx, c, "wk-gpu1", 2) })
	eventually(t, 20*time.Second, "the Job's pod succeeded", func(ctx context.Context) error {
		message, err := podMessage(ctx, c, "job-name=verify")
		if err != nil {
			return err
		}
		return is("message", "sh /verify/verify.sh wk-gpu1 on wk-gpu1: a script, 2 GPUs GPU-wk-gpu1-0,GPU-wk-gpu1-1", message)
	})
	thirdPodStaysPending(t, c)
	kubectlThroughSOCKS(t, p)
	leaveAndComeBack(t, p, c, w)
}

func ready(ctx context.Context, c kubernetes.Interface, name string, want corev1.ConditionStatus) error {
	node, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return is("Ready", want, cond.Status)
		}
	}
	return fmt.Errorf("no condition Ready")
}

func allocatable(ctx context.Context, c kubernetes.Interface, name string, want int64) error {
	node, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	have := node.Status.Allocatable["nvidia.com/gpu"]
	return is("allocatable", want, have.Value())
}

func podMessage(ctx context.Context, c kubernetes.Interface, selector string) (string, error) {
	pods, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return "", err
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodSucceeded {
			return pod.Status.ContainerStatuses[0].State.Terminated.Message, nil
		}
		err = fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
	}
	return "", fmt.Errorf("no pod succeeded: %w", err)
}

func gpuPod(name string, gpus string) *corev1.Pod {
	manifest := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	class := "nvidia"
	manifest.Spec.RuntimeClassName = &class
	manifest.Spec.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	manifest.Spec.Containers = []corev1.Container{{Name: "main", Image: "cuda", Resources: corev1.ResourceRequirements{Limits: quantity("nvidia.com/gpu", gpus)}}}
	return manifest
}

func thirdPodStaysPending(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	for _, name := range []string{"one", "two", "three"} {
		_, err := c.CoreV1().Pods("default").Create(t.Context(), gpuPod(name, "1"), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	phases := func(ctx context.Context) map[corev1.PodPhase]int {
		count := map[corev1.PodPhase]int{}
		for _, name := range []string{"one", "two", "three"} {
			pod, err := c.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
			require.NoError(t, err)
			count[pod.Status.Phase]++
			for _, cond := range pod.Status.Conditions {
				if cond.Type == corev1.PodScheduled && strings.Contains(cond.Message, "Insufficient nvidia.com/gpu") {
					count["insufficient"]++
				}
			}
		}
		return count
	}
	eventually(t, 15*time.Second, "two of three GPU pods run and one cannot", func(ctx context.Context) error {
		return is("phases", "map[Pending:1 Running:2 insufficient:1]", fmt.Sprint(phases(ctx)))
	})
	for _, name := range []string{"one", "two", "three"} {
		require.NoError(t, c.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	eventually(t, 15*time.Second, "deleted pods are gone", func(ctx context.Context) error {
		pods, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=one"})
		if err != nil {
			return err
		}
		return is("pods", 0, len(pods.Items))
	})
}

func leaveAndComeBack(t *testing.T, p guest.Plane, c kubernetes.Interface, w *worker) {
	t.Helper()
	// The driver goes: no GPU is allocatable.
	w.gpus.Store(0)
	eventually(t, 10*time.Second, "no GPU is allocatable without a driver", func(ctx context.Context) error { return allocatable(ctx, c, w.Name, 0) })
	w.gpus.Store(2)
	eventually(t, 10*time.Second, "GPUs are back", func(ctx context.Context) error { return allocatable(ctx, c, w.Name, 2) })

	p.Leave(w.Name)
	require.NoError(t, ready(t.Context(), c, w.Name, corev1.ConditionUnknown))
	w.Labels, w.Taints, w.Memory = map[string]string{"gpu": "h100"}, nil, 128<<30
	require.NoError(t, p.Join(t.Context(), w.Node))
	eventually(t, 10*time.Second, "it is Ready again", func(ctx context.Context) error { return ready(ctx, c, w.Name, corev1.ConditionTrue) })
	node, err := c.CoreV1().Nodes().Get(t.Context(), w.Name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "h100", node.Labels["gpu"], "K3s sets the labels of its configuration at every start")
	assert.NotEmpty(t, node.Spec.Taints, "taints count at registration only")
	assert.Equal(t, "128Gi", node.Status.Capacity.Memory().String())

	p.Leave(w.Name)
	require.NoError(t, c.CoreV1().Nodes().Delete(t.Context(), w.Name, metav1.DeleteOptions{}))
	require.NoError(t, p.Join(t.Context(), w.Node))
	eventually(t, 10*time.Second, "it is registered again", func(ctx context.Context) error {
		node, err := c.CoreV1().Nodes().Get(ctx, w.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return is("label", "h100", node.Labels["gpu"])
	})
}

func quantity(name corev1.ResourceName, text string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(text)}
}

// kubectlThroughSOCKS is what a user does from another shell.
func kubectlThroughSOCKS(t *testing.T, p guest.Plane) {
	t.Helper()
	b, err := bastion.Listen(t.Context(), t.TempDir(), func(ctx context.Context, _, address string) (net.Conn, error) {
		if address != vip+":6443" {
			return nil, fmt.Errorf("dial %s: no route to host", address)
		}
		return p.Dial(ctx)
	})
	require.NoError(t, err)
	defer b.Close()
	config, err := clientcmd.Load(p.Kubeconfig("https://" + vip + ":6443"))
	require.NoError(t, err)
	config.Clusters["default"].ProxyURL = b.SOCKS()
	file := t.TempDir() + "/kubeconfig"
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	labd := labtest.Binary(t, labtest.Real())
	kubectl := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), labd, append([]string{"kubectl", "--kubeconfig=" + file}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	assert.Regexp(t, `wk-gpu1 +Ready +<none> .* v1.36.5\+k3s1`, kubectl("get", "nodes"))
	assert.Regexp(t, `cp-1 +Ready +control-plane,etcd `, kubectl("get", "nodes"))
	assert.Contains(t, kubectl("version"), "Server Version: "+labctl.KubernetesVersion)
	assert.Equal(t, "checked\n", kubectl("logs", "job/verify"))
	assert.Contains(t, kubectl("describe", "node", "wk-gpu1"), "nvidia.com/gpu")
}
