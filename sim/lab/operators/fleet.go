package operators

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

func fleetClusters() kind { return kind{"fleet.cattle.io", "v1alpha1", "clusters"} }
func gitRepos() kind      { return kind{"fleet.cattle.io", "v1alpha1", "gitrepos"} }
func bundles() kind       { return kind{"fleet.cattle.io", "v1alpha1", "bundles"} }
func deployments() kind   { return kind{"apps", "v1", "deployments"} }

func fleetPrograms() []program {
	return []program{{
		name: "fleet-controller", image: "rancher/fleet", is: func(c corev1.Container) bool { return c.Name == "fleet-controller" },
		watch: []kind{fleetClusters(), deployments()}, sync: fleetController,
	}, {
		name: "gitjob", image: "rancher/fleet", is: func(c corev1.Container) bool { return c.Name == "gitjob" },
		watch: []kind{gitRepos()}, sync: gitJob,
	}}
}

// fleetConfig is the part of Fleet's own configuration that the lab uses.
type fleetConfig struct {
	AgentImage string `json:"agentImage"`
	Bootstrap  struct {
		AgentNamespace string `json:"agentNamespace"`
		Namespace      string `json:"namespace"`
	} `json:"bootstrap"`
}

// fleetController registers its own cluster, which is Ready when the agent is.
func fleetController(ctx context.Context, i *instance) (time.Duration, error) {
	config, err := i.Client.CoreV1().ConfigMaps(i.pod.Namespace).Get(ctx, "fleet-controller", metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("fleet's configuration: %w", err)
	}
	var c fleetConfig
	if err := json.Unmarshal([]byte(config.Data["config"]), &c); err != nil {
		return 0, fmt.Errorf("fleet's configuration: %w", err)
	}
	home, agents := cmp.Or(c.Bootstrap.Namespace, fleetLocalNamespace), cmp.Or(c.Bootstrap.AgentNamespace, i.pod.Namespace)
	if i.kept == nil {
		agent := deployment(agents, "fleet-agent", cmp.Or(c.AgentImage, "rancher/fleet-agent:"+fleetVersion))
		err := i.apply(ctx, object.New("v1", "Namespace", "", home, nil), object.New("v1", "Namespace", "", agents, nil), agent,
			object.New("fleet.cattle.io/v1alpha1", "Cluster", home, "local", map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"name": "local", "management.cattle.io/cluster-name": "local", "management.cattle.io/cluster-display-name": "local"}},
				"spec":     map[string]any{"agentNamespace": agents, "kubeConfigSecret": "local-cluster"},
			}),
			object.New("fleet.cattle.io/v1alpha1", "ClusterGroup", home, "default", map[string]any{"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"name": "local"}}}}))
		if err != nil {
			return 0, err
		}
		i.kept = true
	}
	cluster, err := one[unstructured.Unstructured](i, fleetClusters(), home, "local")
	if err != nil || cluster == nil {
		return 0, err
	}
	agent, err := one[unstructured.Unstructured](i, deployments(), agents, "fleet-agent")
	if err != nil || agent == nil {
		return 0, err
	}
	up, _, _ := unstructured.NestedInt64(agent.Object, "status", "readyReplicas")
	status, message, seen := "True", "", map[string]any{"namespace": agents}
	if up == 0 {
		status, message = "Unknown", "waiting for the fleet-agent"
	} else if object.Text(cluster, "status", "agent", "lastSeen") == "" {
		seen["lastSeen"] = metav1.Now().UTC().Format(time.RFC3339)
	}
	return 0, i.patchStatus(ctx, cluster, map[string]any{
		"namespace": "cluster-fleet-local-local-1a3d67d0a899", "agent": seen,
		"conditions": object.Conditions(cluster, false, "Ready", status, "", message),
	})
}
