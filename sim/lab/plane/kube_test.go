package plane_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// user is package kube's client of a real kube-apiserver, and what it has written.
type user struct {
	*kube.Client
	mu     sync.Mutex
	writes []string
}

func newUser(t *testing.T, p guest.Plane) *user {
	t.Helper()
	u := &user{}
	var err error
	u.Client, err = kube.New(kube.Config{
		Kubeconfig: p.Kubeconfig("https://" + vip + ":6443"),
		Dial:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) },
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" {
					u.mu.Lock()
					u.writes = append(u.writes, r.Method+" "+r.URL.Path)
					u.mu.Unlock()
				}
				return next.RoundTrip(r)
			})
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = u.Close() })
	return u
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// apply applies and returns the results.
func (u *user) apply(t *testing.T, objs ...runtime.Object) []kube.Result {
	t.Helper()
	changes, err := u.Apply(t.Context(), objs...)
	require.NoError(t, err)
	var out []kube.Result
	for _, c := range changes {
		out = append(out, c.Result)
	}
	return out
}

// unchanged checks that everything is up to date, and that nothing is written to find out.
func (u *user) unchanged(t *testing.T, objs ...runtime.Object) {
	t.Helper()
	u.writes = nil
	assert.Equal(t, slices.Repeat([]kube.Result{kube.Unchanged}, len(objs)), u.apply(t, objs...))
	diff, err := u.Diff(t.Context(), objs...)
	require.NoError(t, err)
	assert.Empty(t, diff.String())
	assert.Empty(t, u.writes)
}

func decode(t *testing.T, file string) []runtime.Object {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	objs, err := kube.Decode(text)
	require.NoError(t, err)
	return objs
}

// TestKube holds package kube to the real thing: what it does in the simulation of
// package kubesim, it does here. The parts build on each other.
func TestKube(t *testing.T) { labtest.OnEither(t, kubeClient) }

func kubeClient(t *testing.T, kind labctl.Guests) {
	f := factory(t, kind)
	began := time.Now()
	p, err := f.Form(t.Context(), guest.PlaneConfig{Version: "v1.36.5+k3s1", TLSSANs: []string{vip}})
	require.NoError(t, err)
	t.Logf("formed after %s", time.Since(began).Round(time.Millisecond))
	u := newUser(t, p)
	require.NoError(t, u.CheckReachable(t.Context()))
	for i := range 2 {
		w := newWorker(fmt.Sprintf("wk%d", i+1), fmt.Sprintf("10.0.0.2%d", i+1), 2)
		require.NoError(t, p.Join(t.Context(), w.Node))
	}
	eventually(t, 15*time.Second, "both nodes are Ready", func(ctx context.Context) error {
		nodes, err := u.Nodes(ctx)
		if err != nil {
			return err
		}
		ready := 0
		for _, n := range nodes {
			if n.Ready {
				ready++
			}
		}
		return is("Ready nodes", 2, ready)
	})
	t.Run("what is applied stays as it is", u.applied)
	t.Run("labels and taints come and go", u.marks)
	t.Run("GPUs become allocatable", u.plugin)
	t.Run("why a Job does not run", u.jobs)
	t.Run("a node is emptied", u.drains)
	t.Run("a kind of its own", u.kinds)
}

func (u *user) applied(t *testing.T) {
	manifest, err := k3s.KubeVIP(k3s.VIP{Address: netip.MustParseAddr(vip)})
	require.NoError(t, err)
	objs, err := kube.Decode(manifest)
	require.NoError(t, err)
	objs = append(decode(t, "objects.yaml"), objs...)
	diff, err := u.Diff(t.Context(), objs...)
	require.NoError(t, err)
	assert.Len(t, diff, len(objs), "%s", diff)
	assert.Equal(t, slices.Repeat([]kube.Result{kube.Created}, len(objs)), u.apply(t, objs...))
	u.unchanged(t, objs...)
	require.NoError(t, u.Delete(t.Context(), objs[6:]...))
}

func (u *user) marks(t *testing.T) {
	taint := kube.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"}
	for _, m := range []kube.Marks{
		{Labels: map[string]string{"pool": "gpu", "gpu": "a100", nvidia.LabelPresent: "true"}, Taints: []kube.Taint{taint}},
		{Labels: map[string]string{"gpu": "a100", nvidia.LabelPresent: "true"}},
	} {
		node, err := u.Node(t.Context(), "wk1")
		require.NoError(t, err)
		assert.NotEmpty(t, m.Diff(node).String())
		require.NoError(t, u.Mark(t.Context(), "wk1", m))
		node, err = u.Node(t.Context(), "wk1")
		require.NoError(t, err)
		assert.Empty(t, m.Diff(node).String())
		assert.Len(t, node.Taints, len(m.Taints))
		assert.Equal(t, m.Labels["pool"], node.Labels["pool"])
	}
}

func (u *user) plugin(t *testing.T) {
	objs, err := addon.DevicePlugin(addon.PluginOptions{})
	require.NoError(t, err)
	u.apply(t, objs...)
	set := objs[2].(*appsv1.DaemonSet)
	eventually(t, 15*time.Second, "two GPUs are allocatable", func(ctx context.Context) error {
		why, ok, err := u.Ready(ctx, set)
		node, _ := u.Node(ctx, "wk1")
		if err != nil || !ok {
			return fmt.Errorf("%s: %w", why, err)
		}
		return is("GPUs", 2, node.Count(nvidia.Resource))
	})
	u.unchanged(t, objs...)
	set.Spec.Template.Spec.Containers[0].Image += "-1"
	set.Spec.Template.Spec.PriorityClassName = ""
	diff, err := u.Diff(t.Context(), objs...)
	require.NoError(t, err)
	assert.Len(t, diff, 2, "%s", diff)
	u.apply(t, objs...)
	u.unchanged(t, objs...)
}

// gpuJob wants a number of GPUs, and ends with an error.
func gpuJob(name, gpus string) *batchv1.Job {
	none := int32(0)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "lab"}}
	j.Spec.BackoffLimit = &none
	j.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Tolerations:   check.Tolerations(),
		Containers:    []corev1.Container{{Name: "main", Image: "x", Args: []string{"x"}, Resources: corev1.ResourceRequirements{Limits: quantity(nvidia.Resource, gpus)}}},
	}
	return j
}

func (u *user) jobs(t *testing.T) {
	classless := gpuJob("classless", "1")
	class := "nvidia-cdi"
	classless.Spec.Template.Spec.RuntimeClassName = &class
	u.apply(t, gpuJob("big", "3"), gpuJob("bad", "2"), classless)
	for name, want := range map[string]string{
		"big": "Insufficient nvidia.com/gpu", "bad": "ended with exit status 127", "classless": `RuntimeClass "nvidia-cdi" not found`,
	} {
		eventually(t, 20*time.Second, name+" says why", func(ctx context.Context) error {
			state, err := u.JobState(ctx, "lab", name)
			if err != nil || !strings.Contains(state.Reason, want) { // while a plugin restarts, its GPUs are away
				return fmt.Errorf("%s: %s: %w", state.Phase, state.Reason, err)
			}
			return nil
		})
	}
	ends, err := u.PodTermination(t.Context(), "lab", batchv1.JobNameLabel+"=bad")
	require.NoError(t, err)
	require.Len(t, ends, 1)
	assert.Equal(t, 127, ends[0].ExitCode)

	_, err = u.Apply(t.Context(), gpuJob("big", "2"))
	require.ErrorIs(t, err, kube.ErrInvalid)
	diff, err := u.Diff(t.Context(), gpuJob("big", "2"))
	require.NoError(t, err)
	assert.Contains(t, diff.String(), "needs a replacement")
	require.NoError(t, u.Delete(t.Context(), gpuJob("big", "2"), gpuJob("bad", "2"), classless))
}

func (u *user) drains(t *testing.T) {
	objs := decode(t, "web.yaml")
	u.apply(t, objs...)
	eventually(t, 20*time.Second, "the deployment is ready", func(ctx context.Context) error {
		why, ok, err := u.Ready(ctx, objs[0])
		if err == nil && !ok {
			err = errors.New(why)
		}
		return err
	})
	holders, err := u.Holders(t.Context(), nvidia.Resource, "")
	require.NoError(t, err)
	require.Len(t, holders, 1)
	assert.Regexp(t, `^lab/web-\S+ holds 1 on wk1$`, holders[0].String())
	var stuck *kube.DrainError
	eventually(t, 10*time.Second, "the budget is known", func(ctx context.Context) error {
		if err := u.Drain(ctx, "wk1", kube.Drain{Timeout: time.Second}); !errors.As(err, &stuck) {
			return fmt.Errorf("drained: %w", err)
		}
		return nil
	})
	assert.Contains(t, stuck.Error(), "the PodDisruptionBudget web (minAvailable: 1) never lets one of its 1 pods go")
	require.NoError(t, u.Delete(t.Context(), objs[1]))
	require.NoError(t, u.Drain(t.Context(), "wk1", kube.Drain{Timeout: 30 * time.Second}))
	require.NoError(t, u.DeleteNode(t.Context(), "wk1"))
	_, err = u.Node(t.Context(), "wk1")
	require.ErrorIs(t, err, kube.ErrNotFound)
}

func (u *user) kinds(t *testing.T) {
	objs := decode(t, "plan.yaml")
	diff, err := u.Diff(t.Context(), objs...)
	require.NoError(t, err)
	assert.Contains(t, diff.String(), "its CustomResourceDefinition is missing or not established yet")
	eventually(t, 10*time.Second, "the kind is established", func(ctx context.Context) error {
		_, err := u.Apply(ctx, objs...)
		return err
	})
	u.unchanged(t, objs...)
	require.NoError(t, u.Delete(t.Context(), objs...))
}
