package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// stands is what of a platform lasts: objects by name, without what Helm keeps of
// earlier revisions and what controllers make up.
func (w *world) stands(t testing.TB) []string {
	t.Helper()
	var out []string
	c := w.kube.Clusters()[len(w.kube.Clusters())-1]
	for _, resource := range []string{
		"namespaces", "configmaps", "secrets", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims",
		"deployments.apps", "daemonsets.apps", "statefulsets.apps", "jobs.batch", "storageclasses.storage.k8s.io",
		"customresourcedefinitions.apiextensions.k8s.io", "clusterissuers.cert-manager.io", "certificates.cert-manager.io",
		"clusterroles.rbac.authorization.k8s.io", "helmchartconfigs.helm.cattle.io",
	} {
		for _, name := range c.Names(resource) {
			if !strings.Contains(name, "sh.helm.release.") && !strings.Contains(name, "pvc-") {
				out = append(out, resource+" "+name)
			}
		}
	}
	return out
}

// isWrite reports whether a request changes something.
func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && !slices.Contains(r.URL.Query()["dryRun"], "All")
}

// writing is a fuse that only counts requests which change something.
type writing struct {
	*fuse
	next http.RoundTripper
}

func (w writing) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isWrite(r) {
		w.mu.Lock()
		blown := w.seen >= w.n
		w.mu.Unlock()
		if !blown {
			return w.next.RoundTrip(r)
		}
		return nil, context.Canceled
	}
	return w.send(w.next, r)
}

// dies runs up on a machine that dies at its n-th request that changes something in
// Kubernetes. It reports whether it did, or up was done before.
func (w *world) dies(t testing.TB, spec *spec.Spec, n int, before bool) bool {
	t.Helper()
	ctx, blow := context.WithCancel(t.Context())
	defer blow()
	f := &fuse{n: n, before: before, blow: blow}
	w.kubeTap = func(next http.RoundTripper) http.RoundTripper { return writing{f, next} }
	defer func() { w.kubeTap = nil }()
	c := w.cluster(t, spec)
	defer c.Close()
	_, err := c.Up().Run(ctx, w.listen(t))
	if err == nil {
		return false
	}
	require.ErrorIs(t, err, context.Canceled)
	time.Sleep(processStart)
	return true
}

// writes are the requests that bring a platform from one file to the next.
func (w *world) platformWrites(t testing.TB, spec *spec.Spec) []string {
	t.Helper()
	var mu sync.Mutex
	var out []string
	w.kubeTap = func(next http.RoundTripper) http.RoundTripper {
		return asked{next, func(r *http.Request) {
			if isWrite(r) {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, r.Method+" "+r.URL.Path)
			}
		}}
	}
	defer func() { w.kubeTap = nil }()
	w.up(t, spec)
	return out
}

// A run that dies at any request to Kubernetes while it brings up a platform, or
// changes it, or takes parts away, leaves nothing that the next does not finish.
func TestCrashOfAPlatform(t *testing.T) {
	bare := parse(t, withPlatform(t, "one-gpu", ""))
	full := parse(t, withPlatform(t, "one-gpu", smallPlatform))
	lean := parse(t, withPlatform(t, "one-gpu", smallPlatform[:strings.Index(smallPlatform, "tls:")]+"monitoring: {size: 10GiB}\n"))
	for _, x := range []struct {
		name         string
		before, then *spec.Spec
	}{
		{"made", bare, full}, {"changed", full, lean},
	} {
		var want, requests []string
		inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
			w.up(t, x.before)
			requests = w.platformWrites(t, x.then)
			want = w.stands(t)
		})
		require.Greater(t, len(requests), 10)
		const cases = 3 // of either; each is three lives, of seconds under the race detector
		mine := share.Start(t, "deaths while a platform is "+x.name)
		for i := range cases {
			if !mine.Next() {
				continue
			}
			n := 1 + i*len(requests)/cases
			t.Run(fmt.Sprintf("%s %d %s", x.name, n, requests[n-1]), func(t *testing.T) {
				t.Parallel()
				inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
					w.up(t, x.before)
					if !w.dies(t, x.then, n, n%2 == 0) {
						t.Skip("it was done by then")
					}
					time.Sleep(time.Duration(n%3) * 20 * time.Second)
					w.up(t, x.then)
					assert.Equal(t, want, w.stands(t))
					assert.Empty(t, w.plan(t, x.then))
				})
			})
		}
	}
}
