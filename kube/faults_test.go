package kube_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/faults"
	"github.com/cps-gpu/homelab/kube"
)

// no is what the API server says to whom it does not know.
func no() faults.Answer {
	return faults.Answer{Status: http.StatusForbidden, Type: "application/json",
		Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"` + faults.ErrInjected.Error() + `"}`}
}

const few = `
apiVersion: v1
kind: Namespace
metadata: {name: few}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: few}
data: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: few}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web, envFrom: [{secretRef: {name: key}}]}]}
`

// verb is one of the client's, on a world of its own.
type verb struct {
	before  func(t *testing.T, w world) // may be nil
	do      func(ctx context.Context, c *kube.Client) error
	done    func(t *testing.T, w world) string // what is missing; may be nil
	patient bool
}

// ask is a verb that answers, and whose answer does not matter here.
func ask[T any](do func(ctx context.Context, c *kube.Client) (T, error)) func(context.Context, *kube.Client) error {
	return func(ctx context.Context, c *kube.Client) error {
		_, err := do(ctx, c)
		return err
	}
}

func applied(manifest string, then time.Duration) func(*testing.T, world) {
	return func(t *testing.T, w world) {
		_, err := w.Apply(t.Context(), decode(t, manifest)...)
		require.NoError(t, err)
		time.Sleep(then)
	}
}

func asked(want func(kube.Node) bool) func(*testing.T, world) string {
	return func(t *testing.T, w world) string {
		n, err := w.Node(t.Context(), "wk1")
		require.NoError(t, err)
		if !want(n) {
			return "the node is not up to date"
		}
		return ""
	}
}

// writing are the verbs that change something.
func writing(t *testing.T) map[string]verb {
	objs := decode(t, few)
	there := applied(few, 0)
	marks := kube.Marks{Labels: map[string]string{"pool": "gpu"}, Taints: []kube.Taint{{Key: "gpu", Effect: "NoSchedule"}}}
	return map[string]verb{
		"apply": {
			do: ask(func(ctx context.Context, c *kube.Client) ([]kube.Change, error) { return c.Apply(ctx, objs...) }),
			done: func(t *testing.T, w world) string {
				d, err := w.Diff(t.Context(), objs...)
				require.NoError(t, err)
				return d.String()
			},
		},
		"recreate": {do: ask(func(ctx context.Context, c *kube.Client) (kube.Change, error) { return c.ApplyOrRecreate(ctx, objs[0]) })},
		"delete":   {before: there, do: func(ctx context.Context, c *kube.Client) error { return c.Delete(ctx, objs...) }},
		"annotate": {before: there, do: func(ctx context.Context, c *kube.Client) error {
			return c.Annotate(ctx, objs[1], map[string]string{"a": "b"})
		}},
		"restart users": {before: there, do: ask(func(ctx context.Context, c *kube.Client) ([]kube.Ref, error) {
			return c.RestartSecretUsers(ctx, "few", "key")
		})},
		"cordon": {
			do:   func(ctx context.Context, c *kube.Client) error { return c.Cordon(ctx, "wk1") },
			done: asked(func(n kube.Node) bool { return n.Cordoned }),
		},
		"uncordon": {
			before: func(t *testing.T, w world) { require.NoError(t, w.Cordon(t.Context(), "wk1")) },
			do:     func(ctx context.Context, c *kube.Client) error { return c.Uncordon(ctx, "wk1") },
			done:   asked(func(n kube.Node) bool { return !n.Cordoned }),
		},
		"mark": {
			do:   func(ctx context.Context, c *kube.Client) error { return c.Mark(ctx, "wk1", marks) },
			done: asked(func(n kube.Node) bool { return marks.Diff(n).Empty() }),
		},
		"drain": {
			before: applied(notebooks, 10*time.Second),
			do: func(ctx context.Context, c *kube.Client) error {
				return c.Drain(ctx, "wk1", kube.Drain{Timeout: time.Minute})
			},
			done: func(t *testing.T, w world) string {
				n, err := w.CountEvictions(t.Context(), "wk1")
				require.NoError(t, err)
				return strings.Repeat("a pod is there; ", n)
			},
			patient: true,
		},
		"delete node": {do: func(ctx context.Context, c *kube.Client) error { return c.DeleteNode(ctx, "wk1") }},
	}
}

const pendingJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec: {template: {spec: {restartPolicy: Never, nodeSelector: {no: node}, containers: [{name: c, image: c}]}}}
`

const claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// reading are those that only look.
func reading(t *testing.T) map[string]verb {
	objs := decode(t, few)
	there := applied(few, 0)
	return map[string]verb{
		"diff": {before: there, do: ask(func(ctx context.Context, c *kube.Client) (converge.Diff, error) { return c.Diff(ctx, objs...) })},
		"ready": {before: there, do: ask(func(ctx context.Context, c *kube.Client) (bool, error) {
			_, ok, err := c.Ready(ctx, objs[2])
			return ok, err
		})},
		"list": {before: there, do: ask(func(ctx context.Context, c *kube.Client) ([]unstructured.Unstructured, error) {
			return c.List(ctx, "v1", "ConfigMap", "few", "")
		})},
		"nodes":     {do: ask(func(ctx context.Context, c *kube.Client) ([]kube.Node, error) { return c.Nodes(ctx) })},
		"kinds":     {do: ask(func(ctx context.Context, c *kube.Client) ([]string, error) { return c.APIs(ctx) })},
		"version":   {do: ask(func(ctx context.Context, c *kube.Client) (string, error) { return c.Version(ctx) })},
		"drainable": {do: ask(func(ctx context.Context, c *kube.Client) (int, error) { return c.CountEvictions(ctx, "wk1") })},
		"who holds": {do: ask(func(ctx context.Context, c *kube.Client) ([]kube.Holder, error) { return c.Holders(ctx, "cpu", "") })},
		"terminations": {do: ask(func(ctx context.Context, c *kube.Client) ([]kube.Termination, error) {
			return c.PodTermination(ctx, "few", "app=web")
		})},
		"job": {before: applied(pendingJob, 0), do: ask(func(ctx context.Context, c *kube.Client) (kube.Job, error) {
			return c.JobState(ctx, "default", "j")
		})},
		"claim": {before: applied(claim, 0), do: ask(func(ctx context.Context, c *kube.Client) (kube.Claim, error) {
			return c.ClaimState(ctx, "default", "c")
		})},
		"pod": {before: applied(notebooks, 10*time.Second), do: ask(func(ctx context.Context, c *kube.Client) (kube.Pod, error) {
			return c.PodState(ctx, "default", "hub-0")
		})},
	}
}

// TestEveryRequestFails: each request of each verb is lost, unheard, refused, and the last
// that the API server answers; what is read is cut short, too. The verb says so; called
// again, it ends well.
func TestEveryRequestFails(t *testing.T) {
	all, looks := writing(t), reading(t)
	maps.Copy(all, looks)
	for name, v := range all {
		t.Run(name, func(t *testing.T) {
			kinds := []faults.Kind{faults.Lost, faults.Unheard, faults.Refused, faults.Outage}
			if _, only := looks[name]; only {
				kinds = append(kinds, faults.CutShort)
			}
			faults.Each(t, kinds, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
				bubble(t, 1, func(t *testing.T, w world) {
					if v.before != nil {
						v.before(t, w)
					}
					// A client that knows nothing yet: it asks for the kinds, too.
					c := w.client(t, func(next http.RoundTripper) http.RoundTripper { return f.RoundTripper(next, no()) })
					one := faults.Case{Do: func() error { return v.do(t.Context(), c) }, Patient: v.patient}
					if v.done != nil {
						one.Done = func() string { return v.done(t, w) }
					}
					use(t, one)
				})
			})
		})
	}
}
