package operators

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/sim/lab/hub"
)

// Command simulates a container that ends, for images of which the lab simulates only the
// results. known is false for all others.
func (c *Cluster) Command(ctx context.Context, pod *corev1.Pod, container corev1.Container) (code int, output string, known bool) {
	if pod.Labels["component"] == hub.Component && container.Name == "notebook" {
		<-ctx.Done() // a notebook server runs until its pod is deleted
		return 0, "", true
	}
	if !strings.HasSuffix(repository(container.Image), "kube-webhook-certgen") {
		return 0, "", false
	}
	i := &instance{manager: &manager{Cluster: c}, pod: pod, container: container}
	if !hasArgument(container, "create") {
		return 0, "(simulated: the lab trusts its own webhooks)\n", true
	}
	namespace, name := i.argument("namespace"), i.argument("secret-name")
	if err := i.servingSecret(ctx, namespace, name, strings.Split(i.argument("host"), ",")...); err != nil {
		return 1, err.Error() + "\n", true
	}
	return 0, fmt.Sprintf("(simulated) secret %s/%s is there\n", namespace, name), true
}
