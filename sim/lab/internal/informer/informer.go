// Package informer keeps copies of a cluster's objects with client-go's informers, one for each kind
// that is asked for. client-go's own factories have one for every kind of Kubernetes: 122 packages,
// which take longer to compile than everything else that the lab needs of Kubernetes.
package informer

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Source is a client of one kind: a typed one, or a dynamic one.
type Source[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Set is informers that begin and end together.
type Set struct {
	informers []cache.SharedIndexInformer
	running   sync.WaitGroup
}

// Add adds an informer to a set that has not started, and returns its copies. Object is an example
// of the kind; changed, if it is not nil, is called for each object that is new, changed or gone.
func Add[L runtime.Object](s *Set, from Source[L], object runtime.Object, changed func(object any)) cache.Indexer {
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return from.List(ctx, opts)
		},
		WatchFuncWithContext: from.Watch,
	}, from), object, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if changed != nil {
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // only one that has ended refuses it
			AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(_, now any) { changed(now) },
		})
	}
	s.informers = append(s.informers, informer)
	return informer.GetIndexer()
}

// Start begins to watch, until ctx ends.
func (s *Set) Start(ctx context.Context) {
	for _, i := range s.informers {
		s.running.Go(func() { i.RunWithContext(ctx) })
	}
}

// WaitForObjects waits until all objects are there, or ctx ends.
func (s *Set) WaitForObjects(ctx context.Context) {
	var all []cache.DoneChecker
	for _, i := range s.informers {
		all = append(all, i.HasSyncedChecker())
	}
	cache.WaitFor(ctx, "", all...)
}

// Wait waits until the informers have ended.
func (s *Set) Wait() { s.running.Wait() }
