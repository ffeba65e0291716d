package operators

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/record"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/lab/internal/informer"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// Cluster is the programs' access to their own cluster.
type Cluster struct {
	Config *rest.Config
	// Kubeconfig is the administrator's, and Address where the API server listens.
	Kubeconfig []byte
	Address    string
	Client     kubernetes.Interface
	Dynamic    dynamic.Interface
	Mapper     *restmapper.DeferredDiscoveryRESTMapper
	CA         traffic.Authority
	Volumes    *traffic.Volumes
	Traffic    *traffic.Traffic
	Proxmox    func() *http.Client // the way to the hosts; nil: there are none
	// Exec runs a command in the first container of a running pod.
	Exec func(ctx context.Context, pod *corev1.Pod, args []string) (code int, output string, err error)
	Log  *slog.Logger

	packaged packaged
}

// packaged are K3s' parts that are off, and a wake-up for when others are.
type packaged struct {
	mu      sync.Mutex
	off     []string
	changed chan struct{}
}

// Disable turns off packaged parts of K3s, such as servicelb, and all others on, as a server does that starts again
// with another disable. What a part has made stays.
func (c *Cluster) Disable(names []string) {
	c.packaged.mu.Lock()
	defer c.packaged.mu.Unlock()
	c.packaged.off = names
	if c.packaged.changed != nil {
		poke(c.packaged.changed)
	}
}

// disabled are the parts that are off.
func (c *Cluster) disabled() []string {
	c.packaged.mu.Lock()
	defer c.packaged.mu.Unlock()
	return c.packaged.off
}

// program is one that the lab can simulate.
type program struct {
	name  string
	image string // the end of the image's name, without registry and tag
	// is refines the match if an image contains several programs; nil: all match.
	is func(corev1.Container) bool
	// watch are the kinds that it looks at. It starts when all of them are served.
	watch []kind
	// sync advances the world by a step. It is called again whenever one of the kinds changes,
	// or after the returned duration.
	sync func(context.Context, *instance) (again time.Duration, err error)
}

// programs are all simulated programs.
func programs() []program {
	return slices.Concat(storagePrograms(), networkPrograms(), certificatePrograms(), monitoringPrograms(), rancherPrograms(), fleetPrograms(), fluxPrograms(), argoPrograms(), hubPrograms(), modelPrograms(), databasePrograms(), loginPrograms(), namePrograms(), observabilityPrograms())
}

// manager starts and ends instances as pods come and go.
type manager struct {
	*Cluster
	events  record.EventBroadcaster
	pods    listers.PodLister
	table   []program
	changed chan struct{}

	artifacts artifacts // of Flux
	running   map[key]*instance
	all       sync.WaitGroup
}

// key names an instance: a program in a workload.
type key struct{ program, namespace, workload, container string }

// Run plays programs until ctx ends.
func Run(ctx context.Context, c *Cluster) {
	m := &manager{Cluster: c, table: programs(), changed: make(chan struct{}, 1), running: map[key]*instance{}}
	c.packaged.mu.Lock()
	c.packaged.changed = m.changed
	c.packaged.mu.Unlock()
	m.events = record.NewBroadcaster()
	m.events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: c.Client.CoreV1().Events("")})
	defer m.events.Shutdown()
	var watching informer.Set
	m.pods = listers.NewPodLister(informer.Add(&watching, c.Client.CoreV1().Pods(""), &corev1.Pod{}, func(any) { poke(m.changed) }))
	watching.Start(ctx)
	watching.WaitForObjects(ctx)
	defer watching.Wait()
	defer m.all.Wait()
	for {
		m.reconcile(ctx)
		select {
		case <-ctx.Done():
			for _, i := range m.running {
				i.cancel()
			}
			return
		case <-m.changed:
		}
		if !pause(ctx, 20*time.Millisecond) { // a rollout is many events
			continue
		}
	}
}

// poke wakes a waiter on ch, and is remembered if there is none.
func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// pause waits, and reports false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool { return converge.Pause(ctx, d) == nil }

// reconcile starts and stops instances to match the Ready pods.
func (m *manager) reconcile(ctx context.Context) {
	pods, err := m.pods.List(labels.Everything())
	if err != nil {
		return
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	wanted := map[key]bool{}
	m.builtin(ctx, wanted)
	for _, pod := range pods {
		if !traffic.Ready(pod) {
			continue
		}
		for _, c := range pod.Spec.Containers {
			for _, p := range m.table {
				k := key{p.name, pod.Namespace, traffic.Workload(pod), c.Name}
				if wanted[k] || !p.runs(c) {
					continue
				}
				wanted[k] = true
				m.lead(ctx, k, p, pod, c)
			}
		}
	}
	for k, i := range m.running {
		if !wanted[k] {
			i.cancel()
			delete(m.running, k)
			m.Log.Info("a program ended", "program", k.program, "workload", k.namespace+"/"+k.workload)
		}
	}
}

// lead makes pod, the oldest Ready one, the pod whose program runs.
func (m *manager) lead(ctx context.Context, k key, p program, pod *corev1.Pod, c corev1.Container) {
	if old, ok := m.running[k]; ok {
		if old.pod.UID == pod.UID || m.isReady(old.pod) {
			return
		}
		old.cancel()
	} else {
		m.Log.Info("a program starts", "program", p.name, "workload", k.namespace+"/"+k.workload)
	}
	m.running[k] = m.start(ctx, p, pod, c)
}

func (m *manager) isReady(pod *corev1.Pod) bool {
	now, err := m.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID && traffic.Ready(now)
}

func (p program) runs(c corev1.Container) bool {
	return strings.HasSuffix(repository(c.Image), p.image) && (p.is == nil || p.is(c))
}

// repository is an image's name without tag and digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		image = image[:i]
	}
	return image
}

// builtin starts what K3s itself does, in no pod.
func (m *manager) builtin(ctx context.Context, wanted map[key]bool) {
	off := m.disabled()
	for _, p := range builtinPrograms() {
		k := key{program: p.name}
		if slices.Contains(off, p.name) {
			continue
		}
		wanted[k] = true
		if m.running[k] == nil {
			m.running[k] = m.start(ctx, p, &corev1.Pod{}, corev1.Container{})
		}
	}
}

// recorder writes events as a component would.
func (m *manager) recorder(component string) record.EventRecorder {
	return m.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
}

// uid is what identifies an object over its life.
type uid = types.UID
