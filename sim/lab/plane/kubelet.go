package plane

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/informer"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// kubelet is the kubelets of all nodes: it keeps nodes Ready, and takes their pods through their
// lives, with their guests for sandboxes, devices and commands that end.
type kubelet struct {
	client   *kubernetes.Clientset
	log      *slog.Logger
	watching informer.Set
	pods     listers.PodLister
	objects  listers.NodeLister
	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
	events   record.EventRecorder
	caster   record.EventBroadcaster
	runs     sync.WaitGroup

	contents *traffic.Volumes // of volumes that outlive pods
	command  func(ctx context.Context, pod *corev1.Pod, c corev1.Container) (code int, output string, known bool)

	network netip.Prefix // of pods

	mu        sync.Mutex
	nodes     map[string]*member
	logs      *podLogs
	addresses map[types.UID]string // given to pods
}

// member is a node whose kubelet runs.
type member struct {
	guest.Node
	running map[types.UID]context.CancelFunc // pods whose commands run now
	devices map[types.UID][]string           // GPUs given to pods
	shares  offered                          // how GPUs are offered

	beating sync.Mutex // held while it writes the Node's status
	last    beats
}

// offered is how the device plugin in a pod offers GPUs.
type offered struct {
	pod      types.UID
	times    int    // how often it offers each whole GPU
	strategy string // for divided ones
}

// recheck is how often things outside Kubernetes (drivers, toolkits) are checked again.
const recheck = 2 * time.Second

func newKubelet(p *plane) *kubelet {
	k := &kubelet{
		client: p.client, log: p.log, nodes: map[string]*member{}, logs: newPodLogs(), addresses: map[types.UID]string{}, network: p.pods,
		contents: p.cluster.Volumes, command: p.cluster.Command,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	core := k.client.CoreV1()
	k.pods = listers.NewPodLister(informer.Add(&k.watching, core.Pods(""), &corev1.Pod{}, func(obj any) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			k.queue.Add(name)
		}
	}))
	k.objects = listers.NewNodeLister(informer.Add(&k.watching, core.Nodes(), &corev1.Node{}, nil))
	k.caster = record.NewBroadcaster()
	k.events = k.caster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet"})
	return k
}

// run works until ctx ends.
func (k *kubelet) run(ctx context.Context) {
	k.caster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: k.client.CoreV1().Events("")})
	k.watching.Start(ctx)
	k.watching.WaitForObjects(ctx)
	var workers sync.WaitGroup
	workers.Go(func() {
		<-ctx.Done()
		k.queue.ShutDown()
	})
	workers.Go(func() { k.watchDevices(ctx) })
	workers.Go(func() { k.keepReady(ctx) })
	const parallel = 4
	for range parallel {
		workers.Go(func() {
			for k.next(ctx) {
			}
		})
	}
	workers.Wait()
	k.runs.Wait()
	k.caster.Shutdown()
	k.watching.Wait()
}

func (k *kubelet) next(ctx context.Context) bool {
	name, quit := k.queue.Get()
	if quit {
		return false
	}
	defer k.queue.Done(name)
	again, err := k.sync(ctx, name)
	switch {
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil:
		k.log.Info("pod", "pod", name.String(), "why", err)
		k.queue.AddRateLimited(name)
	case again > 0:
		k.queue.Forget(name)
		k.queue.AddAfter(name, again)
	default:
		k.queue.Forget(name)
	}
	return true
}

// start starts a node's kubelet and syncs the pods bound to it.
func (k *kubelet) start(n guest.Node) {
	k.stop(n.Name)
	k.mu.Lock()
	k.nodes[n.Name] = &member{Node: n, running: map[types.UID]context.CancelFunc{}, devices: map[types.UID][]string{}}
	k.mu.Unlock()
	k.requeue(n.Name)
}

// stop stops a node's kubelet and its commands; false if there was none.
func (k *kubelet) stop(name string) bool {
	k.mu.Lock()
	m, up := k.nodes[name]
	if up {
		for _, cancel := range m.running {
			cancel()
		}
	}
	delete(k.nodes, name)
	k.mu.Unlock()
	if up {
		m.beating.Lock() // what it is just writing is its last
		defer m.beating.Unlock()
	}
	return up
}

func (k *kubelet) member(name string) (*member, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, up := k.nodes[name]
	return m, up
}

func (k *kubelet) members() []*member {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*member, 0, len(k.nodes))
	for _, m := range k.nodes {
		all = append(all, m)
	}
	return all
}

// podsOn lists the pods that are bound to a node.
func (k *kubelet) podsOn(node string) []*corev1.Pod {
	all, err := k.pods.List(labels.Everything())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(p *corev1.Pod) bool { return p.Spec.NodeName != node })
}

func (k *kubelet) requeue(node string) {
	for _, pod := range k.podsOn(node) {
		k.queue.Add(cache.MetaObjectToName(pod))
	}
}

// sync advances one pod by a step. A positive duration requests another call.
func (k *kubelet) sync(ctx context.Context, name cache.ObjectName) (time.Duration, error) {
	pod, err := k.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at pod: %w", err)
	}
	m, up := k.member(pod.Spec.NodeName)
	switch {
	case !up:
		return 0, nil
	case pod.DeletionTimestamp != nil:
		k.release(m, pod.UID)
		return 0, k.remove(ctx, pod)
	case ended(pod):
		k.release(m, pod.UID)
		return 0, nil
	case silenced(pod):
		return k.readyAgain(ctx, m, pod)
	case !sandboxReady(pod):
		return k.makeSandbox(ctx, m, pod)
	case pod.Spec.RestartPolicy != corev1.RestartPolicyAlways:
		return k.startCommands(ctx, m, pod)
	case hasEngine(pod) && !traffic.Ready(pod):
		return k.startEngine(ctx, m, pod)
	case pod.Status.Phase == corev1.PodPending:
		return 0, k.runOn(ctx, m, pod)
	}
	return k.toMachine(ctx, m, pod) // again after a boot; otherwise it changes nothing
}

// release ends a pod's commands and releases its devices.
func (k *kubelet) release(m *member, uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if cancel, ok := m.running[uid]; ok {
		cancel()
	}
	delete(m.devices, uid)
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// eventOn records an event as this node's kubelet would.
func (k *kubelet) eventOn(pod *corev1.Pod, kind, reason, format string, args ...any) {
	k.events.Eventf(pod, kind, reason, format, args...)
}
