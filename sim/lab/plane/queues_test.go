package plane_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/charts"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// class is a cluster of eight cards: students have six of them and staff two.
func class(t *testing.T, kind labctl.Guests) (c kubernetes.Interface, said func(ctx context.Context, namespace, pod string) string) {
	t.Helper()
	f := factory(t, kind)
	p, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}, Version: "v1.36.5+k3s1"})
	require.NoError(t, err)
	c = client(t, p)
	require.NoError(t, p.Join(t.Context(), guest.Node{Name: "cp-1", Role: "server", InternalIP: netip.MustParseAddr("10.0.0.11"), Version: "v1.36.5+k3s1", CPUs: 4, Memory: 8 << 30}))
	for i := range 4 {
		require.NoError(t, p.Join(t.Context(), newWorker(fmt.Sprintf("wk-gpu%d", i+1), fmt.Sprintf("10.0.0.2%d", i+1), 2).Node))
	}
	plugin, _, _ := strings.Cut(gpuManifest, "---")
	require.NoError(t, p.Apply(t.Context(), []byte(plugin)))
	for i := range 4 {
		eventually(t, time.Minute, "two GPUs more", func(ctx context.Context) error { return allocatable(ctx, c, fmt.Sprintf("wk-gpu%d", i+1), 2) })
	}
	install(t, p, c)
	config, err := clientcmd.RESTConfigFromKubeConfig(p.Kubeconfig("https://" + vip + ":6443"))
	require.NoError(t, err)
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) }
	d, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return c, func(ctx context.Context, namespace, pod string) string { return waitsFor(ctx, d, namespace, pod) }
}

// install installs Kueue with our values and objects.
func install(t *testing.T, p guest.Plane, c kubernetes.Interface) {
	t.Helper()
	queues := addon.Kueue{Queues: []spec.Queue{
		{Name: "students", Namespaces: []string{"student1", "student2", "jupyterhub"}, GPUs: 6, Borrow: spec.On},
		{Name: "staff", Namespaces: []string{"research"}, GPUs: 2, Reclaim: true},
	}}
	part, err := queues.Make(&addon.Site{HubNamespace: "jupyterhub", Offered: map[string]int{"nvidia.com/gpu": 8}})
	require.NoError(t, err)
	dir := t.TempDir() + "/charts"
	require.NoError(t, charts.Write(dir))
	manifest, err := helm.Source{Folder: dir, Offline: true}.Render(t.Context(), *part.Release, helm.Capabilities{Kubernetes: "v1.36.5+k3s1"})
	require.NoError(t, err)
	for _, namespace := range []string{"kueue-system", "student1", "student2", "research", "jupyterhub"} {
		_, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	var objects bytes.Buffer
	for _, object := range part.After {
		b, err := yaml.Marshal(object)
		require.NoError(t, err)
		objects.WriteString("---\n" + string(b))
	}
	eventually(t, time.Minute, "Kueue is installed", func(ctx context.Context) error { return p.Apply(ctx, manifest) })
	eventually(t, time.Minute, "its queues are there", func(ctx context.Context) error { return p.Apply(ctx, objects.Bytes()) })
	eventually(t, time.Minute, "pods wait", func(ctx context.Context) error {
		tried, err := c.CoreV1().Pods("student1").Create(ctx, student("student1", "tried", "1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		return is("gates", 1, len(tried.Spec.SchedulingGates))
	})
}

// waitsFor is what the Workload of a pod or Job says of its quota.
func waitsFor(ctx context.Context, d dynamic.Interface, namespace, name string) string {
	list, err := d.Resource(schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, u := range list.Items {
		if strings.Contains(u.GetName(), "-"+name+"-") {
			conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			for _, condition := range conditions {
				if m := condition.(map[string]any); m["type"] == "QuotaReserved" {
					return fmt.Sprint(m["message"])
				}
			}
		}
	}
	return "no Workload"
}

func student(namespace, name, gpus string) *corev1.Pod {
	p := gpuPod(name, gpus)
	p.Namespace = namespace
	return p
}

func start(t *testing.T, c kubernetes.Interface, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		_, err := c.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// running are the pods of a namespace that run, in the order of their names.
func running(ctx context.Context, c kubernetes.Interface, namespace string) string {
	list, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var out []string
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			out = append(out, p.Name)
		}
	}
	return strings.Join(out, " ")
}

func runs(t *testing.T, c kubernetes.Interface, namespace, want string) {
	t.Helper()
	eventually(t, time.Minute, namespace+" runs "+want, func(ctx context.Context) error { return is("running", want, running(ctx, c, namespace)) })
}

// A class of students shares eight cards: they borrow what staff leave, the one who came first does not
// starve the rest, staff get their part back, and what can never fit says so.
func TestAClassSharesEightCards(t *testing.T) { labtest.OnEither(t, sharesEightCards) }

func sharesEightCards(t *testing.T, kind labctl.Guests) {
	c, said := class(t, kind)
	for i := range 9 { // one student asks for everything
		start(t, c, student("student1", fmt.Sprintf("a%d", i), "1"))
	}
	runs(t, c, "student1", "a0 a1 a2 a3 a4 a5 a6 a7")
	eventually(t, 30*time.Second, "the ninth says why it waits", func(ctx context.Context) error {
		return is("message", "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor homelab, 1 more needed", said(ctx, "student1", "a8"))
	})
	// Another comes later, and is next all the same.
	start(t, c, student("student2", "b0", "1"), student("student2", "too-much", "9"))
	eventually(t, 30*time.Second, "more than there is says so", func(ctx context.Context) error {
		return is("message", "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor homelab, previously considered podsets requests (0) + current podset request (9) > maximum capacity (8)",
			said(ctx, "student2", "too-much"))
	})
	// Staff get one of their two back, from the newest borrower.
	start(t, c, student("research", "r0", "1"))
	runs(t, c, "research", "r0")
	runs(t, c, "student1", "a0 a1 a2 a3 a4 a5 a6")
	require.NoError(t, c.CoreV1().Pods("student1").Delete(t.Context(), "a0", metav1.DeleteOptions{}))
	runs(t, c, "student2", "b0")
	runs(t, c, "student1", "a1 a2 a3 a4 a5 a6")
	otherPodsDoNotWait(t, c, said)
	ownClaimsWait(t, c, said)
}

// A pod with a claim of its own is not admitted: Kueue knows no quota for it.
func ownClaimsWait(t *testing.T, c kubernetes.Interface, said func(ctx context.Context, namespace, name string) string) {
	t.Helper()
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "student2"}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com"}}}
	_, err := c.ResourceV1().ResourceClaimTemplates("student2").Create(t.Context(), template, metav1.CreateOptions{})
	require.NoError(t, err)
	for name, claim := range map[string]corev1.PodResourceClaim{
		"by-template": {Name: "gpu", ResourceClaimTemplateName: &template.Name}, "by-name": {Name: "gpu", ResourceClaimName: &template.Name},
	} {
		p := student("student2", name, "1")
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{claim}
		start(t, c, p)
	}
	for name, want := range map[string]string{
		"by-template": `spec.podSets[0].template.spec.resourceClaims[0].resourceClaimTemplateName: Not found: "DeviceClass gpu.nvidia.com is not mapped in DRA configuration for podset main"`,
		"by-name":     "KueueDRAIntegration feature does not support use of resource claims",
	} {
		eventually(t, time.Minute, name+" says why it waits", func(ctx context.Context) error { return is("message", want, said(ctx, "student2", name)) })
	}
}

// Outside of queues, and in the hub's namespace without the label, nothing waits; a Job waits as a whole.
func otherPodsDoNotWait(t *testing.T, c kubernetes.Interface, said func(ctx context.Context, namespace, name string) string) {
	t.Helper()
	hub := student("jupyterhub", "hub", "1")
	hub.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	notebook := student("jupyterhub", "jupyter-student1", "1")
	notebook.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "students"}
	start(t, c, hub, notebook, student("default", "verify", "1"))
	for _, name := range []string{"hub", "verify"} {
		namespace := map[string]string{"hub": "jupyterhub", "verify": "default"}[name]
		p, err := c.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Empty(t, p.Spec.SchedulingGates, name)
	}
	p, err := c.CoreV1().Pods("jupyterhub").Get(t.Context(), "jupyter-student1", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}, p.Spec.SchedulingGates)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "student2"}}
	job.Spec.Template.Spec = gpuPod("", "1").Spec
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job, err = c.BatchV1().Jobs("student2").Create(t.Context(), job, metav1.CreateOptions{})
	require.NoError(t, err)
	require.True(t, *job.Spec.Suspend)
	require.Equal(t, "default", job.Labels["kueue.x-k8s.io/queue-name"])
	eventually(t, time.Minute, "the Job waits", func(ctx context.Context) error {
		return is("message", true, strings.Contains(said(ctx, "student2", "train"), "1 more needed"))
	})
	require.NoError(t, c.CoreV1().Pods("default").Delete(t.Context(), "verify", metav1.DeleteOptions{}))
	for _, name := range []string{"a1", "a2"} {
		require.NoError(t, c.CoreV1().Pods("student1").Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	eventually(t, time.Minute, "the Job is resumed", func(ctx context.Context) error {
		j, err := c.BatchV1().Jobs("student2").Get(ctx, "train", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return is("suspend of a Job of which Kueue says "+said(ctx, "student2", "train"), false, *j.Spec.Suspend)
	})
	runs(t, c, "jupyterhub", "hub jupyter-student1")
}
