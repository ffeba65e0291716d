package kubesim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// plane is a control plane alone with a client, in a bubble.
type plane struct {
	*kubesim.Cluster
	config *rest.Config
	client *kubernetes.Clientset
}

func alone(t *testing.T, test func(t *testing.T, p plane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := kubesim.NewPlane(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"}, kubesim.Backends{})
		require.NoError(t, err)
		config := configOf(t, c)
		client, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		test(t, plane{c, config, client})
		require.NoError(t, c.Close())
	})
}

func configOf(t *testing.T, c *kubesim.Cluster) *rest.Config {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig("https://10.0.0.10:6443"))
	require.NoError(t, err)
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) }
	config.QPS, config.Burst = 1000, 1000
	return config
}

// node registers a node whose kubelet is ready, with one GPU.
func (p plane) node(t *testing.T, name string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("1")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err := p.client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	require.NoError(t, err)
}

// kubelets starts every pod that is bound, and removes every one that is deleted.
func (p plane) kubelets(ctx context.Context, t *testing.T) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(p.client, 0)
	act := func(obj any) {
		pod := obj.(*corev1.Pod)
		switch {
		case pod.Spec.NodeName == "":
		case pod.DeletionTimestamp != nil:
			zero := int64(0)
			err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
			assert.True(t, err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil, err)
		case pod.Status.Phase == corev1.PodPending:
			patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":"Running","podIP":"10.42.0.9","conditions":[{"type":"Ready","status":"True"}],
				"containerStatuses":[{"name":"c","ready":true,"image":"c","imageID":"","restartCount":0,"state":{"running":{}}}]}}`, pod.UID)
			_, err := p.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
			assert.True(t, err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil, err)
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: act, UpdateFunc: func(_, obj any) { act(obj) }})
	require.NoError(t, err)
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
}

const web = `{"metadata":{"name":"web"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},
	"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}}}`

func deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(t, json.Unmarshal([]byte(web), d))
	return d
}

// TestRollout has informers of client-go play the kubelets of a Deployment that is updated.
func TestRollout(t *testing.T) {
	alone(t, func(t *testing.T, p plane) {
		ctx, stop := context.WithCancel(t.Context())
		defer func() { stop(); synctest.Wait() }()
		p.node(t, "wk1")
		p.kubelets(ctx, t)
		deployments := p.client.AppsV1().Deployments("default")
		_, err := deployments.Create(ctx, deployment(t), metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		require.NoError(t, err)
		assert.EqualValues(t, 3, d.Status.AvailableReplicas)
		assert.Equal(t, d.Generation, d.Status.ObservedGeneration)

		watched, err := p.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		d.Spec.Template.Spec.Containers[0].Image = "nginx:2"
		_, err = deployments.Update(ctx, d, metav1.UpdateOptions{})
		require.NoError(t, err)
		least, running := 3, map[string]bool{}
		go func() {
			for e := range watched.ResultChan() {
				pod, ok := e.Object.(*corev1.Pod)
				if !ok { // the end
					return
				}
				running[pod.Name] = e.Type != watch.Deleted && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning
				n := 0
				for _, up := range running {
					if up {
						n++
					}
				}
				if len(running) > 3 {
					least = min(least, n)
				}
			}
		}()
		time.Sleep(10 * time.Second)
		watched.Stop()
		synctest.Wait()
		assert.GreaterOrEqual(t, least, 3, "one more is started before one goes")
		d, err = deployments.Get(ctx, "web", metav1.GetOptions{})
		require.NoError(t, err)
		assert.EqualValues(t, 3, d.Status.UpdatedReplicas)
		assert.EqualValues(t, 3, d.Status.Replicas)
		assert.Equal(t, "2", d.Annotations["deployment.kubernetes.io/revision"])
		pods, err := p.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, pods.Items, 3)
		for _, pod := range pods.Items {
			assert.Equal(t, "nginx:2", pod.Spec.Containers[0].Image)
		}

		require.NoError(t, deployments.Delete(ctx, "web", metav1.DeleteOptions{}))
		time.Sleep(10 * time.Second)
		pods, err = p.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		assert.Empty(t, pods.Items)
	})
}

// TestNobodyWorksWhenNothingHappens: an idle control plane writes nothing.
func TestNobodyWorksWhenNothingHappens(t *testing.T) {
	alone(t, func(t *testing.T, p plane) {
		ctx, stop := context.WithCancel(t.Context())
		defer func() { stop(); synctest.Wait() }()
		p.node(t, "wk1")
		p.kubelets(ctx, t)
		_, err := p.client.AppsV1().Deployments("default").Create(ctx, deployment(t), metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, p.Apply(ctx, []byte(everything)))
		time.Sleep(time.Minute)
		version := func() string {
			list, err := p.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			return list.ResourceVersion
		}
		before := version()
		time.Sleep(10 * time.Minute)
		var was, is int
		_, _ = fmt.Sscan(before, &was)
		_, _ = fmt.Sscan(version(), &is)
		assert.LessOrEqual(t, is-was, 80, "but for the events of what waits")
	})
}

const everything = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: c}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: slow, resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: default}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: c}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: default}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: slow}
provisioner: nobody.example
volumeBindingMode: WaitForFirstConsumer
`

// TestWatchAndListAgree: what a list says, and a watch from its version adds, is what is stored at
// the end, for every version and selection. The watch says each step once.
func TestWatchAndListAgree(t *testing.T) {
	alone(t, func(t *testing.T, p plane) {
		ctx := t.Context()
		maps := p.client.CoreV1().ConfigMaps("default")
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's
		type follower struct {
			have map[string]string
			w    watch.Interface
			opts metav1.ListOptions
		}
		var all []follower
		follow := func(opts metav1.ListOptions) {
			list, err := maps.List(ctx, opts)
			require.NoError(t, err)
			f := follower{have: map[string]string{}, opts: opts}
			for _, m := range list.Items {
				f.have[m.Name] = m.ResourceVersion
			}
			second := int64(1)
			opts.ResourceVersion, opts.TimeoutSeconds = list.ResourceVersion, &second
			f.w, err = maps.Watch(ctx, opts)
			require.NoError(t, err)
			all = append(all, f)
		}
		for i := range 200 {
			name := fmt.Sprint("m", random.IntN(8))
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"odd": fmt.Sprint(random.IntN(2))}}, Data: map[string]string{"n": fmt.Sprint(i)}}
			switch random.IntN(3) {
			case 0:
				_ = maps.Delete(ctx, name, metav1.DeleteOptions{})
			default:
				if _, err := maps.Update(ctx, m, metav1.UpdateOptions{}); err != nil {
					_, err = maps.Create(ctx, m, metav1.CreateOptions{})
					require.NoError(t, err)
				}
			}
			if i%10 == 0 {
				follow(metav1.ListOptions{})
				follow(metav1.ListOptions{LabelSelector: "odd=1"})
				follow(metav1.ListOptions{FieldSelector: "metadata.name=m3"})
			}
		}
		for _, f := range all {
			for e := range f.w.ResultChan() {
				m := e.Object.(*corev1.ConfigMap)
				_, there := f.have[m.Name]
				assert.Equal(t, there, e.Type != watch.Added, "%s of %s", e.Type, m.Name)
				f.have[m.Name] = m.ResourceVersion
				if e.Type == watch.Deleted {
					delete(f.have, m.Name)
				}
			}
			list, err := maps.List(ctx, f.opts)
			require.NoError(t, err)
			want := map[string]string{}
			for _, m := range list.Items {
				want[m.Name] = m.ResourceVersion
			}
			assert.Equal(t, want, f.have, f.opts)
		}
	})
}

// TestAdmission: the player of webhooks sees what clients and what controllers make.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admit := func(obj map[string]any, get func(resource, namespace, name string) map[string]any) error {
			if obj["kind"] != "Pod" {
				return nil
			}
			if get("namespaces", "", "default") == nil || get("namespaces", "", "none") != nil {
				return errors.New("get does not read")
			}
			if withVersion(obj, "metadata", "name") == "bad" {
				return errors.New("not this one")
			}
			obj["spec"].(map[string]any)["schedulingGates"] = []any{map[string]any{"name": "example.com/wait"}}
			return nil
		}
		c, err := kubesim.NewPlane(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}}, kubesim.Backends{Admit: admit})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		client, err := kubernetes.NewForConfig(configOf(t, c))
		require.NoError(t, err)
		_, err = client.AppsV1().Deployments("default").Create(t.Context(), deployment(t), metav1.CreateOptions{})
		require.NoError(t, err)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "good"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		_, err = client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		require.NoError(t, err)
		pod.Name = "bad"
		_, err = client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		assert.True(t, apierrors.IsForbidden(err), err)
		time.Sleep(time.Second)
		pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, pods.Items, 4)
		for _, p := range pods.Items {
			assert.Len(t, p.Spec.SchedulingGates, 1, p.Name)
		}
	})
}

func TestTooOldToWatch(t *testing.T) {
	alone(t, func(t *testing.T, p plane) {
		maps := p.client.CoreV1().ConfigMaps("default")
		m, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		first := m.ResourceVersion
		for i := range 2500 {
			m.Data = map[string]string{"n": fmt.Sprint(i)}
			m, err = maps.Update(t.Context(), m, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
		w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first})
		require.NoError(t, err)
		e := <-w.ResultChan()
		assert.Equal(t, watch.Error, e.Type)
		assert.True(t, apierrors.IsResourceExpired(apierrors.FromObject(e.Object)))
		w.Stop()
	})
}

// TestDynamicInformer sees a custom kind's objects come, change and go.
func TestDynamicInformer(t *testing.T) {
	alone(t, func(t *testing.T, p plane) {
		ctx, stop := context.WithCancel(t.Context())
		defer func() { stop(); synctest.Wait() }()
		require.NoError(t, p.Apply(ctx, []byte(widgets)))
		client, err := dynamic.NewForConfig(p.config)
		require.NoError(t, err)
		gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		lister := factory.ForResource(gvr).Lister()
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		require.NoError(t, p.Apply(ctx, []byte("{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 3}}")))
		time.Sleep(time.Second)
		got, err := lister.ByNamespace("default").Get("w")
		require.NoError(t, err)
		assert.NotNil(t, got)
		require.NoError(t, client.Resource(gvr).Namespace("default").Delete(ctx, "w", metav1.DeleteOptions{}))
		time.Sleep(time.Second)
		_, err = lister.ByNamespace("default").Get("w")
		assert.True(t, apierrors.IsNotFound(err), err)
	})
}

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
`
