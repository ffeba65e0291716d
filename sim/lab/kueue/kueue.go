package kueue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// Manager is Kueue's access to its cluster.
type Manager struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Log     *slog.Logger
}

const (
	apiVersion   = "kueue.x-k8s.io/v1beta2"
	name         = "kueue"
	queueLabel   = "kueue.x-k8s.io/queue-name"
	managedLabel = "kueue.x-k8s.io/managed"
	podFinalizer = managedLabel
	gate         = "kueue.x-k8s.io/admission"
	inUse        = "kueue.x-k8s.io/resource-in-use"
)

func kindOf(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: plural}
}

// Run plays the manager until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	const every = time.Second
	for converge.Pause(ctx, every) == nil {
		if err := m.step(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
			m.Log.Info("program", "program", name, "why", err)
		}
	}
}

// step looks at the world once, and moves it on.
func (m *Manager) step(ctx context.Context) error {
	there, exclude, err := m.config(ctx)
	if err != nil || !there {
		return err
	}
	w, err := m.look(ctx, exclude)
	if err != nil || w == nil {
		return err
	}
	if err := m.sayQueues(ctx, w); err != nil {
		return err
	}
	if err := m.enqueue(ctx, w); err != nil {
		return err
	}
	w.count() // after what ended has given its part back
	return m.schedule(ctx, w)
}

// config reads the manager's configuration, if its pod is ready.
func (m *Manager) config(ctx context.Context) (there bool, exclude []string, err error) {
	pods, err := m.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=kueue,control-plane=controller-manager"})
	if err != nil {
		return false, nil, fmt.Errorf("pods: %w", err)
	}
	for i := range pods.Items {
		if !traffic.Ready(&pods.Items[i]) {
			continue
		}
		cm, err := m.Client.CoreV1().ConfigMaps(pods.Items[i].Namespace).Get(ctx, "kueue-manager-config", metav1.GetOptions{})
		if err != nil {
			return false, nil, fmt.Errorf("configuration: %w", err)
		}
		var c struct {
			Resources struct {
				ExcludeResourcePrefixes []string `json:"excludeResourcePrefixes"`
			} `json:"resources"`
		}
		if err := yaml.Unmarshal([]byte(cm.Data["controller_manager_config.yaml"]), &c); err != nil {
			return false, nil, fmt.Errorf("configuration: %w", err)
		}
		return true, c.Resources.ExcludeResourcePrefixes, nil
	}
	return false, nil, nil
}

// world is all that decides who is next.
type world struct {
	exclude []string // prefixes of resources that are not counted
	flavors map[string]bool
	queues  map[string]*queue        // by name of the ClusterQueue
	doors   map[string]*door         // by namespace/name of the LocalQueue
	loads   map[string]*load         // by namespace/name of the Workload
	pods    []corev1.Pod             // that Kueue manages
	jobs    []batchv1.Job            // the same
	objects map[string]metav1.Object // of loads, by UID
}

func (m *Manager) list(ctx context.Context, plural string) ([]unstructured.Unstructured, error) {
	l, err := m.Dynamic.Resource(kindOf(plural)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", plural, err)
	}
	return l.Items, nil
}

// look reads the world; nil before the definitions are there.
func (m *Manager) look(ctx context.Context, exclude []string) (*world, error) {
	w := &world{exclude: exclude, flavors: map[string]bool{}, queues: map[string]*queue{}, doors: map[string]*door{}, loads: map[string]*load{}, objects: map[string]metav1.Object{}}
	lists := map[string][]unstructured.Unstructured{}
	for _, plural := range []string{"resourceflavors", "clusterqueues", "localqueues", "workloads"} {
		items, err := m.list(ctx, plural)
		if apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		lists[plural] = items
	}
	managed := metav1.ListOptions{LabelSelector: managedLabel + "=true"}
	pods, err := m.Client.CoreV1().Pods("").List(ctx, managed)
	if err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	jobs, err := m.Client.BatchV1().Jobs("").List(ctx, managed)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	w.pods, w.jobs = pods.Items, jobs.Items
	for i := range w.pods {
		w.objects[string(w.pods[i].UID)] = &w.pods[i]
	}
	for i := range w.jobs {
		w.objects[string(w.jobs[i].UID)] = &w.jobs[i]
	}
	for i := range lists["resourceflavors"] {
		w.flavors[lists["resourceflavors"][i].GetName()] = true
	}
	for i := range lists["clusterqueues"] {
		q := readQueue(&lists["clusterqueues"][i], w.flavors)
		w.queues[q.object.GetName()] = q
	}
	for i := range lists["localqueues"] {
		d := readDoor(&lists["localqueues"][i])
		w.doors[key(d.object)] = d
	}
	for i := range lists["workloads"] {
		l := readLoad(&lists["workloads"][i], w)
		w.loads[key(l.object)] = l
	}
	return w, nil
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// counted reports whether a quota counts a resource.
func (w *world) counted(resource string) bool {
	for _, prefix := range w.exclude {
		if strings.HasPrefix(resource, prefix) {
			return false
		}
	}
	return true
}
