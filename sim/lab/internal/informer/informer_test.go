package informer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/cps-gpu/homelab/sim/lab/internal/informer"
)

// pods is a client that has some pods and says what changes.
type pods struct {
	has     []corev1.Pod
	changes *watch.FakeWatcher
}

func (p *pods) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: p.has}, nil
}

func (p *pods) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return p.changes, nil
}

// IsWatchListSemanticsUnSupported says that a watch does not begin with the objects that are there.
func (p *pods) IsWatchListSemanticsUnSupported() bool { return true }

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
}

func TestCopiesFollowTheCluster(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := &pods{has: []corev1.Pod{*pod("a", "1")}, changes: watch.NewFake()}
	changed := make(chan any, 10)
	var set informer.Set
	lister := listers.NewPodLister(informer.Add(&set, client, &corev1.Pod{}, func(object any) { changed <- object }))
	quiet := informer.Add(&set, &pods{has: client.has, changes: watch.NewFake()}, &corev1.Pod{}, nil)
	set.Start(ctx)
	set.WaitForObjects(ctx)

	version := func(name string) string {
		p, err := lister.Pods("ns").Get(name)
		if err != nil {
			return err.Error()
		}
		return p.ResourceVersion
	}
	next := func(of runtime.Object) { assert.Equal(t, of, <-changed) }
	next(pod("a", "1"))
	assert.Equal(t, "1", version("a"))
	assert.Len(t, quiet.List(), 1)
	require.Equal(t, `pod "b" not found`, version("b"))
	client.changes.Add(pod("b", "2"))
	next(pod("b", "2"))
	assert.Equal(t, "2", version("b"))
	client.changes.Modify(pod("b", "3"))
	next(pod("b", "3"))
	assert.Equal(t, "3", version("b"))
	client.changes.Delete(pod("b", "4"))
	next(pod("b", "4"))
	assert.Equal(t, `pod "b" not found`, version("b"))

	cancel()
	set.Wait()
}
