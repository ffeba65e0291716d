package conformance

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const gatewayGroup = "gateway.networking.k8s.io"

// gateway wants an implementation of the Gateway API that has accepted its class. Weights and headers are in
// what every implementation supports of HTTPRoute.
func (c *cluster) gateway(ctx context.Context) (Finding, error) {
	f := Finding{Result: Failed, Do: "turn on the Gateway API: ingress: gateway (docs/platform.md)"}
	v := c.version(gatewayGroup, "HTTPRoute")
	if v == "" {
		f.Evidence = []string{"the API server does not serve HTTPRoutes"}
		return f, nil
	}
	f.Evidence = []string{fmt.Sprintf("the API server serves %s/%s HTTPRoutes", gatewayGroup, v)}
	classes, err := c.list(ctx, gatewayGroup, "GatewayClass")
	if err != nil {
		return Finding{}, err
	}
	gateways, err := c.list(ctx, gatewayGroup, "Gateway")
	if err != nil {
		return Finding{}, err
	}
	for i := range classes {
		by, _, _ := unstructured.NestedString(classes[i].Object, "spec", "controllerName")
		if !holds(&classes[i], "Accepted") {
			f.Evidence = append(f.Evidence, fmt.Sprintf("GatewayClass %s of %s is not Accepted", classes[i].GetName(), by))
			continue
		}
		f.Result, f.Do = Passed, ""
		f.Evidence = append(f.Evidence, fmt.Sprintf("GatewayClass %s is Accepted by %s", classes[i].GetName(), by))
	}
	if len(classes) == 0 {
		f.Evidence = append(f.Evidence, "there is no GatewayClass")
	}
	for i := range gateways {
		if holds(&gateways[i], "Programmed") {
			f.Evidence = append(f.Evidence, fmt.Sprintf("Gateway %s is Programmed", path(&gateways[i])))
		}
	}
	return f, nil
}

// inferencePool looks for pools of the Inference Extension that a Gateway has accepted.
func (c *cluster) inferencePool(ctx context.Context) (Finding, error) {
	f := Finding{Result: Failed, Do: "install an implementation of the Inference Extension; homelab brings none"}
	for _, group := range []string{"inference.networking.k8s.io", "inference.networking.x-k8s.io"} {
		pools, err := c.list(ctx, group, "InferencePool")
		if err != nil {
			return Finding{}, err
		}
		if v := c.version(group, "InferencePool"); v != "" {
			f.Result, f.Evidence = NotShown, append(f.Evidence, fmt.Sprintf("the API server serves %s/%s InferencePools", group, v))
			f.Do = "make an InferencePool that a Gateway accepts"
		}
		for i := range pools {
			if acceptedPool(&pools[i]) {
				return Finding{Result: Passed, Evidence: append(f.Evidence, fmt.Sprintf("a Gateway has accepted InferencePool %s", path(&pools[i])))}, nil
			}
		}
	}
	if len(f.Evidence) == 0 {
		f.Evidence = []string{"the API server does not serve InferencePools"}
	}
	return f, nil
}

// acceptedPool reports whether a parent of a pool has accepted it.
func acceptedPool(pool *unstructured.Unstructured) bool {
	for _, field := range []string{"parents", "parent"} { // v1, v1alpha2
		parents, _, _ := unstructured.NestedSlice(pool.Object, "status", field)
		if slices.ContainsFunc(parents, func(p any) bool {
			m, _ := p.(map[string]any)
			return holds(&unstructured.Unstructured{Object: map[string]any{"status": m}}, "Accepted")
		}) {
			return true
		}
	}
	return false
}

// dranet is the driver of network devices that the requirement names.
const dranet = "dra.net"

// fastNetwork looks for network devices beside Kubernetes' own network.
func (c *cluster) fastNetwork(ctx context.Context) (Finding, error) {
	drivers, err := c.draDrivers(ctx)
	if err != nil {
		return Finding{}, err
	}
	if slices.Contains(drivers, dranet) {
		return Finding{Result: Passed, Evidence: []string{"ResourceSlices of " + dranet}}, nil
	}
	if c.version("k8s.cni.cncf.io", "NetworkAttachmentDefinition") != "" {
		return Finding{Result: NotShown, Evidence: []string{"pods can attach to more networks by NetworkAttachmentDefinitions, which is not DRA"}, Do: "publish the devices by a DRA driver, such as DRANET"}, nil
	}
	return Finding{Result: NotApplicable, Evidence: []string{"nothing publishes network devices, and pods have Kubernetes' network alone"}}, nil
}

// prefillAndDecode looks for what serves models by prefill and decode.
func (c *cluster) prefillAndDecode(ctx context.Context) (Finding, error) {
	kinds := []kindOf{{"nvidia.com", "DynamoGraphDeployment"}, {"serving.kserve.io", "LLMInferenceService"}, {"leaderworkerset.x-k8s.io", "LeaderWorkerSet"}}
	f, err := c.findReconciled(ctx, kinds)
	switch {
	case err != nil:
		return Finding{}, err
	case f.Result == Passed: // that prefill and decode are apart in it is not seen from here
		f.Result, f.Do = NotShown, "show that prefill and decode are separate in it"
	case f.Result == Failed:
		f.Evidence, f.Do = []string{"the API server serves no kind of Dynamo, llm-d, KServe's LLMInferenceService or LeaderWorkerSet"}, "install one; the servers of models: do prefill and decode in one process"
	}
	return f, nil
}
