package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// hung is one of several wires on a fuse.
type hung struct {
	*fuse
	next http.RoundTripper
}

func (h hung) RoundTrip(r *http.Request) (*http.Response, error) { return h.send(h.next, r) }

// asked notes what goes over a wire and changes something.
type asked struct {
	next http.RoundTripper
	note func(*http.Request)
}

func (a asked) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		a.note(r)
	}
	return a.next.RoundTrip(r)
}

// threeServers is a control plane of three and nothing else.
func threeServers(t *testing.T) *spec.Spec {
	t.Helper()
	return parse(t, strings.Split(example(t, "eight-a100"), "  wk-gpu: #")[0])
}

// plane is what a control plane consists of beside its machines.
func (w *world) plane(t *testing.T) []string {
	t.Helper()
	require.Len(t, w.kube.Clusters(), 1, "one control plane")
	c := w.kube.Clusters()[0]
	out := slices.Concat(c.Names("nodes"), c.Names("secrets"))
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		out = append(out, fmt.Sprintf("etcd as %s sees it: %s", name, w.guests()[name].EtcdMembers()))
	}
	return out
}

// The replacement of one server of three that dies at any request that changes
// something, to Proxmox or to Kubernetes, is finished by another or by up: etcd has
// three members afterwards, and nothing of the old machine is left.
func TestCrashWhileReplacingAServer(t *testing.T) {
	spec := threeServers(t)
	var machines, plane, requests []string
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		w.up(t, spec)
		time.Sleep(time.Minute)
		machines, plane = w.inventory(), w.plane(t)
		require.Contains(t, plane, "etcd as cp3 sees it: [cp1 cp2 cp3]")
		w.tap = func(next http.RoundTripper) http.RoundTripper {
			return asked{next, func(r *http.Request) {
				w.mu.Lock()
				defer w.mu.Unlock()
				requests = append(requests, r.Method+" "+r.URL.Path)
			}}
		}
		require.NoError(t, w.verb(t, spec, replacements(t.Context(), "cp1", false)))
		w.tap = nil
		time.Sleep(time.Minute)
		assert.Equal(t, machines, w.inventory())
		assert.Equal(t, plane, w.plane(t))
	})
	mine := share.Start(t, "deaths while replacing a server")
	for i, request := range requests {
		for _, how := range ways(i, request) {
			if !mine.Next() {
				continue
			}
			t.Run(fmt.Sprintf("%d %s %+v", i+1, request, how), func(t *testing.T) {
				t.Parallel()
				inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
					defer time.Sleep(3 * time.Minute) // what still dials the old machine gives up
					w.up(t, spec)
					time.Sleep(time.Minute)
					w.blow(t, spec, how.node, i+1, how.before)
					time.Sleep(processStart + time.Duration(i%3)*20*time.Second)
					if !how.again {
						w.upOrRefused(t, spec, how)
					}
					if how.again || !w.kube.Clusters()[0].HasNode(how.node) {
						require.NoError(t, w.verb(t, spec, replacements(t.Context(), how.node, false)))
					}
					w.recovers(t, spec, machines)
					assert.Equal(t, plane, w.plane(t))
				})
			})
		}
	}
}

// way is how a replacement is cut off and finished.
type way struct {
	node   string // cp1 has made the cluster: without its disk it would make another
	before bool   // the request is not sent
	again  bool   // node:replace finishes it, not up
}

// ways are all that matter for requests from which on a server, its Node and its
// member of etcd are not all there, and one for each of the others.
func ways(i int, request string) []way {
	off, gone := strings.HasSuffix(request, "/status/shutdown"), strings.HasPrefix(request, "DELETE ")
	switch {
	case gone && strings.Contains(request, "/qemu/"):
		return []way{{"cp1", false, true}, {"cp1", false, false}, {"cp2", true, false}}
	case gone || off:
		return []way{{"cp1", false, true}, {"cp1", false, false}}
	}
	return []way{{[]string{"cp1", "cp2"}[i%2], i%4 < 2, i%3 == 0}}
}

// upOrRefused is up, which cannot make a server that etcd has let go with its disk
// what it was, and must not let it begin a cluster of its own.
func (w *world) upOrRefused(t *testing.T, spec *spec.Spec, how way) {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	_, err := c.Up().Run(t.Context(), w.listen(t))
	if err != nil {
		require.ErrorContains(t, err, "k3s/"+how.node+": k3s server does not start: this server was removed from etcd: recreate the machine")
		require.False(t, w.kube.Clusters()[0].HasNode(how.node))
	}
}

// blow replaces a node on a machine that dies at the n-th request that changes something.
func (w *world) blow(t *testing.T, spec *spec.Spec, node string, n int, before bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &fuse{n: n, before: before, writes: true, blow: cancel}
	w.tap = func(next http.RoundTripper) http.RoundTripper { return hung{f, next} }
	c := w.cluster(t, spec)
	w.tap = nil
	defer c.Close()
	g, err := c.NodeReplace(ctx, node, false)
	require.NoError(t, err)
	_, err = g.Run(ctx, w.listen(t))
	require.ErrorIs(t, err, context.Canceled)
}
