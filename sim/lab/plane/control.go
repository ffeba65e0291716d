package plane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// Control is a running control plane: an API server, and the controllers and the scheduler behind
// it. It has no nodes of its own, and no programs in pods. It is safe for concurrent use.
type Control interface {
	// The authority is the cluster's; the certificates that it issues are for both sides.
	traffic.Authority

	// Config connects as administrator, over loopback.
	Config() *rest.Config
	// Kubeconfig is the administrator's, for the URL of a server.
	Kubeconfig(server string) ([]byte, error)
	// Serve makes the API server's certificate valid for more names and addresses.
	Serve(ctx context.Context, sans []string) error
	// Reach tells the API server the only way to kubelets, pods and Services.
	Reach(to Outside)
	// Save returns the state and the keys, for a start with [Settings.Saved].
	Save(ctx context.Context) (*guest.PlaneSaved, error)
	// Watch starts again what ends by itself, and returns when ctx ends.
	Watch(ctx context.Context)
	// Processes are the ids of its processes, if it has any.
	Processes() []int
	// Stop ends it all and deletes its data.
	Stop()
}

// Outside is who answers the API server.
type Outside struct {
	// Way finds who is at an address of the cluster, host:port, and returns what serves a
	// connection to it: a kubelet, over TLS, a program in a pod, or who has a public name.
	Way func(address string) (serve func(net.Conn), err error)
	// Kubelet is the API of a node's kubelet, for an API server in this process.
	Kubelet func(node string) http.Handler
}

// Start starts a control plane, which lives until Stop.
type Start func(ctx context.Context, s Settings) (Control, error)

// Settings are what a running control plane cannot change.
type Settings struct {
	Networks

	Saved *guest.PlaneSaved // what it begins with; nil: nothing
}

// Networks are those of a cluster, and what else its servers' configuration says.
type Networks struct {
	Services, Pods netip.Prefix
	Second         [2]netip.Prefix // the same of the other family; not valid: none
	Domain         string
	PlainSecrets   bool // Secrets are not encrypted where they are stored
}

// List is a network and that of the other family, if there is one.
func List(first, second netip.Prefix) string {
	if !second.IsValid() {
		return first.String()
	}
	return first.String() + "," + second.String()
}

// Defaults are K3s' networks.
func Defaults() Networks {
	return Networks{
		Services: netip.MustParsePrefix("10.43.0.0/16"),
		Pods:     netip.MustParsePrefix("10.42.0.0/16"),
		Domain:   "cluster.local",
	}
}

// SilenceNodes says of the nodes in a restored state that their kubelets are silent, which is so
// until they join, and of their pods that they are not Ready, as the controller of nodes does when a
// node falls silent. In a state that is restored it does so only for pods that it sees after it has
// seen their node (kubernetes, pkg/controller/nodelifecycle, processPod).
func SilenceNodes(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("restored nodes: %w", err)
	}
	for _, n := range nodes.Items {
		if err := deregister(ctx, client, n.Name); err != nil {
			return err
		}
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("restored pods: %w", err)
	}
	for _, p := range pods.Items {
		i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if i < 0 {
			continue
		}
		err := patchPod(ctx, client, &p, map[string]any{"conditions": []any{condition(corev1.PodReady, corev1.ConditionFalse, "", "")}})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
