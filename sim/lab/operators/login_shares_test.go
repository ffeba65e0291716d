package operators_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// mounts starts a server at the hub, and checks whether the share of a course is in it. It removes the server.
func (b *browser) mounts(s *site, name string, want bool) {
	b.t.Helper()
	pods := s.core.CoreV1().Pods("jupyterhub")
	eventually(b.t, 90*time.Second, name+" has a server", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "jupyter-"+name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return errors.Join(err, b.load(b.http.PostForm("https://hub.lab.example/hub/spawn", url.Values{"profile": {"cpu"}})))
		}
		if err != nil || !traffic.Ready(pod) {
			return errors.Join(err, fmt.Errorf("it is %s: %.300s", pod.Status.Phase, b.text))
		}
		its := slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == "share-course" && m.MountPath == "/shared/course"
		})
		assert.Equal(b.t, want, its, "the share in the server of %s", name)
		return nil
	})
	eventually(b.t, 60*time.Second, name+" has no server", func(ctx context.Context) error {
		if _, err := pods.Get(ctx, "jupyter-"+name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("its pod is there"), b.load(b.http.PostForm("https://hub.lab.example/hub/stop", nil)))
	})
}
