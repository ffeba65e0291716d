package operators

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cps-gpu/homelab/sim/lab/hub"
)

// Command simulates a container that ends, for images of which the lab simulates only the
// results. known is false for all others.
func (c *Cluster) Command(ctx context.Context, pod *corev1.Pod, container corev1.Container) (code int, output string, known bool) {
	if pod.Labels["component"] == hub.Component && container.Name == "notebook" {
		<-ctx.Done() // a notebook server runs until its pod is deleted
		return 0, "", true
	}
	if strings.HasSuffix(repository(container.Image), "/kubectl") && hasArgument(container, "scale") {
		i := &instance{manager: &manager{Cluster: c}, pod: pod, container: container}
		return c.scale(ctx, i.argument("namespace"), i.argument("replicas"), container.Args[len(container.Args)-1])
	}
	if strings.HasSuffix(repository(container.Image), "cloudnative-pg/postgresql") {
		i := &instance{manager: &manager{Cluster: c}, pod: pod, container: container}
		return i.psql(ctx)
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

// psql plays a client that asks the database of $URI for nothing but an answer.
func (i *instance) psql(ctx context.Context) (code int, output string, known bool) {
	const noConnection = 2
	uri, err := i.variable(ctx, "URI")
	if err != nil {
		return 1, err.Error() + "\n", true
	}
	u, err := url.Parse(uri)
	if err != nil {
		return noConnection, "psql: error: invalid URI\n", true
	}
	name, namespace, _ := strings.Cut(u.Hostname(), ".")
	namespace, _, _ = strings.Cut(namespace, ".")
	port, _ := strconv.Atoi(cmp.Or(u.Port(), "5432"))
	if _, err := i.Traffic.Service(namespace, name, "", int32(port)); err != nil {
		return noConnection, fmt.Sprintf("psql: error: connection to server at %q, port %d failed: Connection refused\n", u.Hostname(), port), true
	}
	return 0, " ?column? \n----------\n        1\n(1 row)\n", true
}

// scale plays kubectl scale. It does so with the lab's own rights, whatever those of the pod are.
func (c *Cluster) scale(ctx context.Context, namespace, replicas, what string) (code int, output string, known bool) {
	n, err := strconv.Atoi(replicas)
	if err != nil {
		return 1, "error: The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0\n", true
	}
	name := strings.TrimPrefix(what, "deployment/")
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
	if _, err := c.Client.AppsV1().Deployments(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl"}); err != nil {
		return 1, "Error from server: " + err.Error() + "\n", true
	}
	return 0, "deployment.apps/" + name + " scaled\n", true
}
