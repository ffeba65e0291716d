package operators

import (
	"context"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

func gitRepositories() kind { return kind{"source.toolkit.fluxcd.io", "v1", "gitrepositories"} }
func helmRepositories() kind {
	return kind{"source.toolkit.fluxcd.io", "v1", "helmrepositories"}
}
func kustomizations() kind { return kind{"kustomize.toolkit.fluxcd.io", "v1", "kustomizations"} }
func helmReleases() kind   { return kind{"helm.toolkit.fluxcd.io", "v2", "helmreleases"} }

// fluxPrograms are three of Flux's controllers, by their source: source-controller v1.9.0,
// kustomize-controller v1.9.0 and helm-controller v1.6.0. Fields of their objects that are not played
// are an error, as with Fleet.
func fluxPrograms() []program {
	is := func(c corev1.Container) bool { return c.Name == "manager" }
	return []program{
		{name: "source-controller", image: "fluxcd/source-controller", is: is, watch: []kind{gitRepositories(), helmRepositories()}, sync: sourceController},
		{name: "kustomize-controller", image: "fluxcd/kustomize-controller", is: is, watch: []kind{kustomizations(), gitRepositories()}, sync: kustomizeController},
		{name: "helm-controller", image: "fluxcd/helm-controller", is: is, watch: []kind{helmReleases(), helmRepositories()}, sync: helmController},
	}
}

// artifacts is what source-controller has read of Git, for the controllers that fetch it from there.
type artifacts struct {
	mu     sync.Mutex
	byName map[string]fs.FS // NAMESPACE/NAME/REVISION
}

func (a *artifacts) put(name string, files fs.FS) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byName == nil {
		a.byName = map[string]fs.FS{}
	}
	a.byName[name] = files
}

func (a *artifacts) get(name string) fs.FS {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byName[name]
}

// strictly makes a typed object of one that the cache holds, and refuses fields that its kind does not have.
func strictly[T any](u *unstructured.Unstructured) (*T, error) {
	out := new(T)
	spec := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": u.Object["metadata"], "spec": u.Object["spec"]}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec.Object, out, true); err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return out, nil
}

// notPlayed names the fields of a struct that are set, of those that the lab's Flux does not play.
func notPlayed(spec any, played ...string) error {
	v := reflect.ValueOf(spec)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; !v.Field(i).IsZero() && !slices.Contains(played, name) {
			return fmt.Errorf("the Flux of the lab does not play this: %s of %s", name, v.Type().Name())
		}
	}
	return nil
}

// finalizer is what all of Flux's controllers put on their objects.
const finalizer = "finalizers.fluxcd.io"

// hold adds Flux's finalizer to an object, or removes it.
func (i *instance) hold(ctx context.Context, u *unstructured.Unstructured, held bool) error {
	list := slices.DeleteFunc(u.GetFinalizers(), func(s string) bool { return s == finalizer })
	if held {
		list = append(list, finalizer)
	}
	return i.patch(ctx, u, map[string]any{"metadata": map[string]any{"finalizers": list}})
}

// ready says in the condition Ready how an object is, and with it what else is known. Its generation counts
// as observed when all is well.
func (i *instance) ready(ctx context.Context, k kind, u *unstructured.Unstructured, status, reason, message string, more map[string]any) error {
	now, err := i.Dynamic.Resource(k.gvr()).Namespace(u.GetNamespace()).Get(ctx, u.GetName(), metav1.GetOptions{})
	if err != nil {
		return gone(err)
	}
	now.SetGeneration(u.GetGeneration()) // of what was read, not of what is there
	all := map[string]any{"conditions": object.Conditions(now, true, "Ready", status, reason, message)}
	if status == "True" {
		all["observedGeneration"] = u.GetGeneration()
	}
	for key, value := range more {
		all[key] = value
	}
	return i.patchStatus(ctx, now, all)
}

// isReady reports whether an object's condition Ready holds for its generation.
func isReady(u *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return seen == u.GetGeneration() && object.IsTrue(u, "Ready")
}

// jobs are what a controller does in the background, one job for each object.
type jobs struct {
	mu sync.Mutex
	of map[uid]*job
}

type job struct {
	id      string // of what it is about
	running bool
	stop    context.CancelFunc
	again   time.Time // not before, after a failure
}

// start begins a job, unless one for that content is in progress, or has failed just now. One for other
// content is stopped.
func (j *jobs) start(ctx context.Context, i *instance, u *unstructured.Unstructured, id string, retry time.Duration, do func(context.Context) error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now := j.of[u.GetUID()]; now != nil {
		if now.running {
			if now.id != id {
				now.stop()
			}
			return
		}
		if now.id == id && time.Now().Before(now.again) {
			return
		}
	}
	ctx, stop := context.WithCancel(ctx)
	now := &job{id: id, running: true, stop: stop}
	if j.of == nil {
		j.of = map[uid]*job{}
	}
	j.of[u.GetUID()] = now
	i.all.Go(func() {
		defer stop()
		err := do(ctx)
		if err != nil && ctx.Err() == nil {
			i.Log.Info("flux", "kind", u.GetKind(), "name", u.GetName(), "why", err)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if now.running = false; err != nil {
			now.again = time.Now().Add(retry)
		}
	})
}
