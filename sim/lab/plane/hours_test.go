package plane_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// TestModelHours: the Jobs of the clock scale the model, which is then as the file wants it, and their account may do
// nothing else.
func TestModelHours(t *testing.T) { labtest.OnEither(t, modelHours) }

func modelHours(t *testing.T, kind labctl.Guests) {
	f := factory(t, kind)
	p, err := f.Form(t.Context(), guest.PlaneConfig{Version: "v1.36.5+k3s1", TLSSANs: []string{vip}})
	require.NoError(t, err)
	u, c := newUser(t, p), client(t, p)
	require.NoError(t, p.Join(t.Context(), guest.Node{Name: "cp-1", Role: "server", InternalIP: netip.MustParseAddr("10.0.0.11"), Version: "v1.36.5+k3s1", CPUs: 4, Memory: 8 << 30}))
	nodes := []spec.Node{{Name: "wk1", GPUs: spec.GPURequest{Count: 2}}}
	model := spec.Model{Name: "qwen", Source: "Qwen/Qwen3-8B", Engine: spec.EngineVLLM, GPUs: 1, Parallel: 1, Replicas: 2, Class: "local-path", Size: spec.GiB, Awake: "22:30-06:15"}
	part, err := addon.Models{Models: []spec.Model{model}, Zone: "Europe/Vienna"}.Make(&addon.Site{Nodes: nodes})
	require.NoError(t, err)
	_, err = u.Apply(t.Context(), part.Before...)
	require.NoError(t, err)
	for _, x := range []struct {
		verb     string
		replicas int32
		schedule string
		deadline time.Duration
		state    modelserver.State
	}{
		{"sleep", 0, "15 6 * * *", 16*time.Hour + 15*time.Minute, modelserver.Asleep},
		{"wake", 2, "30 22 * * *", 7*time.Hour + 45*time.Minute, modelserver.Pending},
	} {
		cron, err := c.BatchV1().CronJobs("models").Get(t.Context(), "qwen-"+x.verb, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, x.schedule, cron.Spec.Schedule)
		assert.Equal(t, "Europe/Vienna", *cron.Spec.TimeZone)
		assert.Equal(t, int64(x.deadline/time.Second), *cron.Spec.StartingDeadlineSeconds)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "now-" + x.verb, Namespace: "models"}, Spec: cron.Spec.JobTemplate.Spec}
		_, err = c.BatchV1().Jobs("models").Create(t.Context(), job, metav1.CreateOptions{})
		require.NoError(t, err)
		eventually(t, time.Minute, x.verb, func(ctx context.Context) error {
			d, err := c.AppsV1().Deployments("models").Get(ctx, "qwen", metav1.GetOptions{})
			if err != nil {
				return err
			}
			return is("replicas", x.replicas, *d.Spec.Replicas)
		})
		diff, err := u.Diff(t.Context(), part.Before...)
		require.NoError(t, err)
		assert.Empty(t, diff)
		all, err := modelserver.List(t.Context(), u.Client)
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.Equal(t, x.state, all[0].State, all[0].Detail)
		if x.state == modelserver.Asleep {
			assert.Equal(t, "until 22:30 Europe/Vienna", all[0].Detail)
		}
	}
	if !kind.Kubernetes {
		return // whose API has no rights
	}
	for _, x := range []struct {
		verb, group, resource, sub, name string
		may                              bool
	}{
		{"get", "apps", "deployments", "", "qwen", true},
		{"patch", "apps", "deployments", "scale", "qwen", true},
		{"patch", "apps", "deployments", "scale", "gateway", false},
		{"patch", "apps", "deployments", "", "qwen", false},
		{"get", "", "secrets", "", "gateway", false},
		{"create", "", "pods", "", "", false},
	} {
		r := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:models:model-clock", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:models", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "models", Verb: x.verb, Group: x.group, Resource: x.resource, Subresource: x.sub, Name: x.name}}}
		r, err := c.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), r, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, x.may, r.Status.Allowed, "%v", x)
	}
}
