package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kindOf is a kind of an API group.
type kindOf struct{ group, kind string }

// gang looks for a queue that is active, and for a workload of several pods that it let start together.
func (c *cluster) gang(ctx context.Context) (Finding, error) {
	if c.version("kueue.x-k8s.io", "ClusterQueue") == "" {
		return c.otherGang(ctx)
	}
	queues, err := c.list(ctx, "kueue.x-k8s.io", "ClusterQueue")
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Result: Failed, Do: "see why with kubectl describe clusterqueues"}
	for i := range queues {
		if holds(&queues[i], "Active") {
			f.Result, f.Evidence = NotShown, append(f.Evidence, "Kueue's ClusterQueue "+queues[i].GetName()+" is Active")
			f.Do = "start a Job with two pods or more in a namespace of a queue (docs/queues.md)"
		}
	}
	workloads, err := c.list(ctx, "kueue.x-k8s.io", "Workload")
	if err != nil {
		return Finding{}, err
	}
	for i := range workloads {
		if n := podsOf(&workloads[i]); n > 1 && holds(&workloads[i], "Admitted") && f.Result == NotShown {
			return Finding{Result: Passed, Evidence: append(f.Evidence, fmt.Sprintf("Workload %s of %d pods was admitted as a whole", path(&workloads[i]), n))}, nil
		}
	}
	if len(f.Evidence) == 0 {
		f.Evidence = []string{"Kueue is installed, and no ClusterQueue is Active"}
	}
	return f, nil
}

// podsOf counts the pods of a Workload.
func podsOf(w *unstructured.Unstructured) (pods int) {
	sets, _, _ := unstructured.NestedSlice(w.Object, "spec", "podSets")
	for _, s := range sets {
		m, _ := s.(map[string]any)
		n, _ := m["count"].(float64) // as encoding/json reads numbers
		pods += int(n)
	}
	return pods
}

// otherGang looks for gang schedulers that homelab does not install.
func (c *cluster) otherGang(ctx context.Context) (Finding, error) {
	f, err := c.findReconciled(ctx, []kindOf{{"scheduling.volcano.sh", "PodGroup"}, {"scheduling.run.ai", "PodGroup"}, {"scheduling.x-k8s.io", "PodGroup"}})
	if err == nil && f.Result == Failed {
		f.Evidence, f.Do = []string{"neither Kueue, Volcano, KAI nor the coscheduling plugin is installed"}, "queues: installs Kueue (docs/queues.md)"
	}
	return f, err
}

// findReconciled looks for objects of some kinds with a status that a controller wrote.
func (c *cluster) findReconciled(ctx context.Context, kinds []kindOf) (Finding, error) {
	f := Finding{Result: Failed}
	for _, k := range kinds {
		v := c.version(k.group, k.kind)
		if v == "" {
			continue
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("the API server serves %s/%s %s", k.group, v, k.kind))
		if f.Result == Failed {
			f.Result, f.Do = NotShown, fmt.Sprintf("make a %s, and wait until its controller has written its status", k.kind)
		}
		list, err := c.list(ctx, k.group, k.kind)
		if err != nil {
			return Finding{}, err
		}
		for i := range list {
			if status, _, _ := unstructured.NestedMap(list[i].Object, "status"); len(status) > 0 {
				f.Result, f.Do = Passed, ""
				f.Evidence = append(f.Evidence, fmt.Sprintf("%s %s has a status from its controller", k.kind, path(&list[i])))
				break
			}
		}
	}
	return f, nil
}

// nodeScaling looks for an autoscaler of nodes. The file says which machines there are, so homelab has none.
func (c *cluster) nodeScaling(ctx context.Context) (Finding, error) {
	if c.version("karpenter.sh", "NodePool") != "" {
		return Finding{Result: NotShown, Evidence: []string{"the API server serves Karpenter's NodePools"}, Do: "show that it adds a node for a pod that waits for a GPU"}, nil
	}
	deployments, err := c.kube.List(ctx, "apps/v1", "Deployment", "", "")
	if err != nil {
		return Finding{}, err
	}
	for i := range deployments {
		if strings.Contains(deployments[i].GetName(), "cluster-autoscaler") {
			return Finding{Result: NotShown, Evidence: []string{"Deployment " + path(&deployments[i])}, Do: "show that it adds a node for a pod that waits for a GPU"}, nil
		}
	}
	return Finding{Result: NotApplicable, Evidence: []string{"no autoscaler is installed: the machines are those of the file"}}, nil
}

// podScaling wants the APIs by which an autoscaler gets metrics of its own, and one that uses them.
func (c *cluster) podScaling(ctx context.Context) (Finding, error) {
	f := Finding{Result: Failed, Do: "install an adapter for custom or external metrics, such as Prometheus' or KEDA; homelab brings none"}
	if c.version("autoscaling", "HorizontalPodAutoscaler") == "" {
		f.Evidence = []string{"the API server does not serve HorizontalPodAutoscalers"}
		return f, nil
	}
	var served, missing []string
	for _, group := range []string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"} {
		if c.servesGroup(group) {
			served = append(served, group)
		} else {
			missing = append(missing, group)
		}
	}
	f.Evidence = []string{"the API server serves HorizontalPodAutoscalers and " + cmp.Or(some(served), "no metrics")}
	if len(missing) > 0 {
		f.Evidence = append(f.Evidence, "it does not serve "+some(missing))
	}
	custom := slices.ContainsFunc(served, func(group string) bool { return group != "metrics.k8s.io" })
	if !custom {
		return f, nil
	}
	f.Result, f.Do = NotShown, "let a HorizontalPodAutoscaler scale a Deployment with GPUs by a metric of its pods"
	scalers, err := c.list(ctx, "autoscaling", "HorizontalPodAutoscaler")
	if err != nil {
		return Finding{}, err
	}
	for i := range scalers {
		if holds(&scalers[i], "ScalingActive") && byOwnMetric(&scalers[i]) {
			f.Result, f.Do = Passed, ""
			f.Evidence = append(f.Evidence, fmt.Sprintf("HorizontalPodAutoscaler %s scales by a metric that is neither CPU nor memory", path(&scalers[i])))
		}
	}
	return f, nil
}

// byOwnMetric reports whether an autoscaler uses another metric than CPU and memory.
func byOwnMetric(hpa *unstructured.Unstructured) bool {
	metrics, _, _ := unstructured.NestedSlice(hpa.Object, "spec", "metrics")
	return slices.ContainsFunc(metrics, func(one any) bool {
		m, _ := one.(map[string]any)
		return m["type"] == "Pods" || m["type"] == "Object" || m["type"] == "External"
	})
}

// operator looks for an operator of AI workloads.
func (c *cluster) operator(ctx context.Context) (Finding, error) {
	f, err := c.findReconciled(ctx, []kindOf{{"ray.io", "RayCluster"}, {"trainer.kubeflow.org", "TrainJob"}, {"kubeflow.org", "PyTorchJob"}, {"serving.kserve.io", "InferenceService"}})
	if err == nil && f.Result == Failed {
		f.Evidence, f.Do = []string{"the API server serves no kind of Ray, Kubeflow or KServe"}, "install one of these operators; homelab brings none"
	}
	return f, err
}
