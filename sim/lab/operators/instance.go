package operators

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/cps-gpu/homelab/sim/lab/internal/informer"
)

// instance is a running program.
type instance struct {
	*manager
	program
	pod       *corev1.Pod // the leader; empty for what K3s itself does
	container corev1.Container
	events    record.EventRecorder
	stores    map[kind]cache.GenericLister
	cancel    context.CancelFunc
	kept      any // the program's state between two calls of sync
}

// kind is a kind of object, with its plural as the API has it in paths.
type kind struct{ group, version, resource string }

func (k kind) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.group, Version: k.version, Resource: k.resource}
}

func (m *manager) start(ctx context.Context, p program, pod *corev1.Pod, c corev1.Container) *instance {
	i := &instance{manager: m, program: p, pod: pod, container: c, events: m.recorder(p.name), stores: map[kind]cache.GenericLister{}}
	ctx, i.cancel = context.WithCancel(ctx)
	m.all.Go(func() { i.run(ctx) })
	return i
}

// run watches, and syncs at every change.
func (i *instance) run(ctx context.Context) {
	defer i.cancel()
	if !i.served(ctx) {
		return
	}
	changed := make(chan struct{}, 1)
	var watching informer.Set
	for _, k := range i.watch {
		copies := informer.Add(&watching, i.Dynamic.Resource(k.gvr()), &unstructured.Unstructured{}, func(any) { poke(changed) })
		i.stores[k] = cache.NewGenericLister(copies, k.gvr().GroupResource())
	}
	watching.Start(ctx)
	defer watching.Wait()
	watching.WaitForObjects(ctx)
	pace := minPause
	for ctx.Err() == nil {
		again, err := i.sync(ctx, i)
		switch {
		case err == nil || apierrors.IsConflict(err):
			pace = minPause
		case ctx.Err() == nil:
			i.Log.Info("program", "program", i.program.name, "why", err)
			pace = min(2*pace, maxPause)
			again = pace
		}
		i.wait(ctx, changed, again)
	}
}

// Limits of the pause after something did not work.
const (
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// wait returns shortly after the next change, or when the time is over.
func (i *instance) wait(ctx context.Context, changed chan struct{}, again time.Duration) {
	var timer <-chan time.Time
	if again > 0 {
		t := time.NewTimer(again)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
	case <-timer:
	case <-changed:
		pause(ctx, 20*time.Millisecond)
		select { // changes in the meantime are handled together
		case <-changed:
		default:
		}
	}
}

// served waits until the API has all kinds that the program watches. A real program would exit
// and restart until then.
func (i *instance) served(ctx context.Context) bool {
	for _, k := range i.watch {
		for !i.has(k) {
			i.Mapper.Reset()
			if i.has(k) {
				break
			}
			if !pause(ctx, 500*time.Millisecond) {
				return false
			}
		}
	}
	return true
}

// has reports whether the API serves a kind.
func (i *instance) has(k kind) bool {
	_, err := i.Mapper.KindFor(k.gvr())
	return err == nil
}

// argument is the first value of an argument.
func (i *instance) argument(name string) string {
	if list := i.arguments(name); len(list) > 0 {
		return list[0]
	}
	return ""
}

// arguments finds each --name=value or --name value in the container's command line.
func (i *instance) arguments(name string) []string {
	var out []string
	all := append(append([]string(nil), i.container.Command...), i.container.Args...)
	for n, arg := range all {
		key, value, both := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case key != name || !strings.HasPrefix(arg, "-"):
		case both:
			out = append(out, value)
		case n+1 < len(all):
			out = append(out, all[n+1])
		}
	}
	return out
}

// environment returns a variable that the container's specification gives itself.
func (i *instance) environment(name string) string {
	for _, e := range i.container.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// all lists the objects of a kind that the program watches, of every namespace.
func all[T any](i *instance, k kind) ([]*T, error) {
	store, ok := i.stores[k]
	if !ok {
		return nil, fmt.Errorf("program %s does not watch %s", i.program.name, k.resource)
	}
	list, err := store.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.resource, err)
	}
	out := make([]*T, 0, len(list))
	for _, obj := range list {
		typed, err := as[T](obj)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.resource, err)
		}
		out = append(out, typed)
	}
	return out, nil
}

// one returns an object that the program watches; nil if there is none.
func one[T any](i *instance, k kind, namespace, name string) (*T, error) {
	var lister cache.GenericNamespaceLister = i.stores[k]
	if namespace != "" {
		lister = i.stores[k].ByNamespace(namespace)
	}
	obj, err := lister.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", k.resource, name, err)
	}
	return as[T](obj)
}

// as makes a typed object of one that the cache holds. The cache's stays as it is.
func as[T any](obj runtime.Object) (*T, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is not an object of a cluster", obj)
	}
	if same, ok := any(u.DeepCopy()).(*T); ok {
		return same, nil
	}
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return out, nil
}

// resource finds how objects of a kind are reached.
func (c *Cluster) resource(obj *unstructured.Unstructured) (*meta.RESTMapping, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		c.Mapper.Reset()
		mapping, err = c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	return mapping, nil
}
