package harvester_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// breaker fails one request: it kills the process before or after it, or has the API answer with a status. From the
// kill on, no request gets through.
type breaker struct {
	next   http.RoundTripper
	at     int
	how    string
	mu     sync.Mutex
	seen   int
	killed bool
}

var errKilled = errors.New("killed")

// The ways to fail.
const (
	before  = "killed before"
	behind  = "killed after"
	unheard = "unheard"
)

func (b *breaker) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.seen++
	hit, dead := b.seen == b.at, b.killed
	b.killed = b.killed || hit && (b.how == before || b.how == behind)
	b.mu.Unlock()
	switch {
	case dead || hit && b.how == before:
		return nil, errKilled
	case hit && (b.how == behind || b.how == unheard):
		if res, err := b.next.RoundTrip(r); err == nil {
			_ = res.Body.Close()
		}
		return nil, errKilled
	case hit:
		var code int
		_, _ = fmt.Sscan(b.how, &code)
		body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":"injected"}`, code)
		return &http.Response{StatusCode: code, Status: b.how, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}, nil
	}
	return b.next.RoundTrip(r)
}

// halted is a machine with a GPU that does not run: the campaign is about requests.
func halted() harvester.VMSpec {
	s := small("a100-wk1", 21)
	s.Running = false
	s.Devices = []harvester.HostDevice{{Name: "node1-000041000", Resource: model}}
	return s
}

func grown() harvester.VMSpec {
	s := halted()
	s.Cores, s.Disks[1].Size, s.Devices = 8, 200*unit.GiB, []harvester.HostDevice{}
	return s
}

// once does what a run would for a machine; nil: it is to be gone.
func once(ctx context.Context, c *harvester.Client, s *harvester.VMSpec) error {
	vm, err := c.Get(ctx, "a100-wk1")
	switch {
	case err != nil:
		return err
	case s == nil && vm != nil:
		return c.Destroy(ctx, vm)
	case s == nil:
		left, err := c.Leftovers(ctx)
		for _, l := range left {
			err = errors.Join(err, c.Clear(ctx, l.Machine))
		}
		return err
	case s.Diff(vm).Empty():
		return nil
	}
	return c.Shape(ctx, *s, vm)
}

// finish repeats a run until nothing is left to do.
func finish(ctx context.Context, t *testing.T, w world, s *harvester.VMSpec) {
	t.Helper()
	w.eventually(t, func() bool {
		err := once(ctx, w.c, s)
		require.False(t, errors.Is(err, kube.ErrForbidden), "%v", err)
		vm, getErr := w.c.Get(ctx, "a100-wk1")
		require.NoError(t, getErr)
		left, leftErr := w.c.Leftovers(ctx)
		require.NoError(t, leftErr)
		return err == nil && len(left) == 0 && (s == nil) == (vm == nil) && (s == nil || s.Diff(vm).Empty())
	})
}

// TestFaultsAtEveryRequest: whichever request of making, changing and removing a machine fails, however, the next run
// brings everything to its end, and nothing of anybody else's is touched.
func TestFaultsAtEveryRequest(t *testing.T) {
	mine := share.Start(t, "faults of Harvester's requests")
	first, second := halted(), grown()
	for _, stage := range []stage{{"create", nil, &first}, {"change", &first, &second}, {"destroy", &second, nil}} {
		requests := stage.fault(t, 0, "")
		require.Greater(t, requests, 5)
		for _, how := range []string{before, behind, unheard, "409", "403", "503"} {
			for at := 1; at <= requests; at++ {
				if mine.Next() {
					stage.fault(t, at, how)
				}
			}
		}
	}
}

// stage is a part of a machine's life.
type stage struct {
	name         string
	given, asked *harvester.VMSpec
}

// fault fails a request of a stage in a world of its own, and returns how many there were.
func (s stage) fault(t *testing.T, at int, how string) (requests int) {
	t.Helper()
	play(t, func(ctx context.Context, t *testing.T, w world) {
		w.image(ctx, t)
		w.strangers(ctx, t)
		finish(ctx, t, w, s.given)
		time.Sleep(10 * time.Second)
		theirs := w.theirs()
		b := &breaker{at: at, how: how}
		k := clientOf(t, w.Sim, func(next http.RoundTripper) http.RoundTripper { b.next = next; return b })
		limited, end := context.WithTimeout(ctx, 10*time.Minute)
		err := once(limited, harvester.New(k, "machines", "a100"), s.asked)
		end()
		requests = b.seen
		if at == 0 {
			require.NoError(t, err)
		}
		finish(ctx, t, w, s.asked)
		time.Sleep(10 * time.Second)
		assert.Equal(t, theirs, w.theirs(), "%s: %s %d", s.name, how, at)
	})
	return requests
}

// strangers are objects that are not ours: another cluster's, and unmarked ones with names of ours and with copies of our
// marks, as a copy of a machine has them.
func (w world) strangers(ctx context.Context, t *testing.T) {
	t.Helper()
	other := harvester.New(clientOf(t, w.Sim, nil), "machines", "b200")
	s := small("b200-wk1", 31)
	s.Running = false
	s.Devices = []harvester.HostDevice{{Name: "node1-000081000", Resource: model}}
	require.NoError(t, other.Shape(ctx, s, nil))
	k := clientOf(t, w.Sim, nil)
	for _, text := range []string{
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a100-wk1-copy","namespace":"machines","labels":{"homelab.cps-gpu.github.com/cluster":"a100"}},"data":{}}`,
		`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a100-wk1-old","namespace":"machines"},
			"spec":{"accessModes":["ReadWriteMany"],"volumeMode":"Block","storageClassName":"harvester-longhorn","resources":{"requests":{"storage":"1Gi"}}}}`,
		`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"copy","namespace":"machines",
			"annotations":{"homelab.cps-gpu.github.com/mark":"a100 machines/a100-wk1"}},
			"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"devices":{},"resources":{"limits":{"cpu":"1","memory":"1Gi"}}}}}}}`,
	} {
		u := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal([]byte(text), &u.Object))
		require.NoError(t, k.Create(ctx, u))
	}
}

// theirs are all objects that are not ours, byte by byte, but nodes and devices, which say what others do with them.
func (w world) theirs() map[string]string {
	out := map[string]string{}
	w.Plane().Each(func(resource string, object map[string]any) {
		u := unstructured.Unstructured{Object: object}
		mark := u.GetAnnotations()["homelab.cps-gpu.github.com/mark"]
		ours := mark == "a100 machines/a100-wk1" && u.GetName() != "copy"
		if ours || slices.Contains([]string{"nodes", "pcidevices.devices.harvesterhci.io", "persistentvolumes", "events", "leases.coordination.k8s.io"}, resource) {
			return
		}
		b, _ := json.Marshal(object)
		out[resource+" "+u.GetNamespace()+"/"+u.GetName()] = string(bytes.TrimSpace(b))
	})
	return out
}
