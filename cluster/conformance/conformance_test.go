package conformance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/internal/kubetest"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/remote"
)

// define is the definition of a kind.
func define(group, version, kind string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]s.%[1]s}
spec:
  group: %[1]s
  scope: Cluster
  names: {kind: %[3]s, plural: %[4]s, singular: %[5]s}
  versions: [{name: %[2]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, group, version, kind, plural, strings.ToLower(kind))
}

// object is one of a defined kind, with further fields in YAML's short form.
func object(api, kind, name, fields string) string {
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s}\n%s\n", api, kind, name, fields)
}

func is(condition string) string {
	return "status: {conditions: [{type: " + condition + ", status: 'True'}]}"
}

const oneNode = "gpu1"

func gpuFile() *spec.Spec {
	return &spec.Spec{Name: "lab", Nodes: []spec.Node{{Name: oneNode, Role: spec.Agent, GPUs: spec.GPURequest{Count: 2}}}}
}

// nobody is a machine that does not answer.
func nobody(string) remote.Runner {
	return remote.RunnerFunc(func(context.Context, remote.Cmd) error { return io.ErrUnexpectedEOF })
}

// exporter answers in place of NVIDIA's exporter.
type exporter struct {
	http.RoundTripper
	text string
}

func (e exporter) RoundTrip(r *http.Request) (*http.Response, error) {
	if e.text == "" || !strings.HasSuffix(r.URL.Path, "/proxy/metrics") {
		return e.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(e.text))}, nil
}

const exporterService = "---\napiVersion: v1\nkind: Service\nmetadata: {name: dcgm-exporter, namespace: default}\nspec: {ports: [{name: metrics, port: 9400}]}\n"

// TestChecks: what a cluster has decides the result of each requirement, and is named.
func TestChecks(t *testing.T) {
	volcano := define("scheduling.volcano.sh", "v1beta1", "PodGroup")
	kueue := define("kueue.x-k8s.io", "v1beta2", "ClusterQueue") + define("kueue.x-k8s.io", "v1beta2", "Workload")
	gateway := define(gatewayGroup, "v1", "HTTPRoute") + define(gatewayGroup, "v1", "GatewayClass") + define(gatewayGroup, "v1", "Gateway")
	pools := define("inference.networking.k8s.io", "v1", "InferencePool")
	ray := define("ray.io", "v1", "RayCluster")
	prometheus := define(promGroup, "v1", "Prometheus") + define(promGroup, "v1", "ServiceMonitor")
	metrics := define("metrics.k8s.io", "v1beta1", "NodeMetrics")
	dynamo := define("nvidia.com", "v1alpha1", "DynamoGraphDeployment")
	for _, tt := range []struct {
		id, there, text string
		want            Result
		evidence        string
	}{
		{"ai_inference", "", "", Failed, "does not serve HTTPRoutes"},
		{"ai_inference", gateway, "", Failed, "there is no GatewayClass"},
		{"ai_inference", gateway + object(gatewayGroup+"/v1", "GatewayClass", "x", "spec: {controllerName: a/b}"), "", Failed, "GatewayClass x of a/b is not Accepted"},
		{"ai_inference", gateway + object(gatewayGroup+"/v1", "GatewayClass", "x", "spec: {controllerName: a/b}\n"+is("Accepted")) + object(gatewayGroup+"/v1", "Gateway", "g", is("Programmed")), "", Passed, "Gateway g is Programmed"},
		{"advanced_inference_ingress", "", "", Failed, "does not serve InferencePools"},
		{"advanced_inference_ingress", pools + object("inference.networking.k8s.io/v1", "InferencePool", "p", "spec: {}"), "", NotShown, "inference.networking.k8s.io/v1"},
		{"advanced_inference_ingress", pools + object("inference.networking.k8s.io/v1", "InferencePool", "p", "status: {parents: [{conditions: [{type: Accepted, status: 'True'}]}]}"), "", Passed, "InferencePool p"},
		{"high_performance_networking", "", "", NotApplicable, "Kubernetes' network alone"},
		{"high_performance_networking", define("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition"), "", NotShown, "is not DRA"},
		{"high_performance_networking", object("resource.k8s.io/v1", "ResourceSlice", "s", "spec: {driver: dra.net}"), "", Passed, "dra.net"},
		{"disaggregated_inference", "", "", Failed, "no kind of Dynamo"},
		{"disaggregated_inference", dynamo + object("nvidia.com/v1alpha1", "DynamoGraphDeployment", "d", "status: {state: successful}"), "", NotShown, "DynamoGraphDeployment d has a status"},
		{"gang_scheduling", "", "", Failed, "neither Kueue"},
		{"gang_scheduling", volcano, "", NotShown, "scheduling.volcano.sh/v1beta1 PodGroup"},
		{"gang_scheduling", volcano + object("scheduling.volcano.sh/v1beta1", "PodGroup", "p", "status: {phase: Running}"), "", Passed, "PodGroup p has a status"},
		{"gang_scheduling", kueue, "", Failed, "no ClusterQueue is Active"},
		{"gang_scheduling", kueue + object("kueue.x-k8s.io/v1beta2", "ClusterQueue", "q", is("Active")) + object("kueue.x-k8s.io/v1beta2", "Workload", "one", "spec: {podSets: [{count: 1}]}\n"+is("Admitted")), "", NotShown, "ClusterQueue q is Active"},
		{"gang_scheduling", kueue + object("kueue.x-k8s.io/v1beta2", "ClusterQueue", "q", is("Active")) + object("kueue.x-k8s.io/v1beta2", "Workload", "two", "spec: {podSets: [{count: 2}, {count: 1}]}\n"+is("Admitted")), "", Passed, "Workload two of 3 pods"},
		{"cluster_autoscaling", "", "", NotApplicable, "no autoscaler"},
		{"cluster_autoscaling", define("karpenter.sh", "v1", "NodePool"), "", NotShown, "Karpenter"},
		{"pod_autoscaling", metrics, "", Failed, "does not serve custom.metrics.k8s.io, external"},
		{"pod_autoscaling", metrics + define("external.metrics.k8s.io", "v1beta1", "ExternalMetric"), "", NotShown, "HorizontalPodAutoscalers and external.metrics.k8s.io, metrics.k8s.io"},
		{"accelerator_metrics", "", "", Failed, "no Service of NVIDIA's dcgm-exporter"},
		{"accelerator_metrics", exporterService, "", NotShown, "default/dcgm-exporter"},
		{"accelerator_metrics", exporterService, utilization + "{gpu=\"0\"} 3\n", Failed, "no " + memoryUsed},
		{"accelerator_metrics", exporterService, "# " + power + "{\n" + utilization + "{gpu=\"0\"} 3\n" + utilization + "{gpu=\"1\"} 3\n" + memoryUsed + "{gpu=\"0\"} 3\n", Passed, utilization + " of 2, " + memoryUsed + " of 1"},
		{"ai_service_metrics", "", "", Failed, "no Prometheus"},
		{"ai_service_metrics", prometheus + object(promGroup+"/v1", "Prometheus", "p", "spec: {}"), "", Failed, "Prometheus p is not Available"},
		{"ai_service_metrics", prometheus + object(promGroup+"/v1", "Prometheus", "p", is("Available")) + object(promGroup+"/v1", "ServiceMonitor", "s", "spec: {}"), "", Passed, "1 ServiceMonitors"},
		{"robust_controller", "", "", Failed, "no kind of Ray"},
		{"robust_controller", ray, "", NotShown, "ray.io/v1 RayCluster"},
		{"robust_controller", ray + object("ray.io/v1", "RayCluster", "r", "status: {state: ready}"), "", Passed, "RayCluster r"},
		{"driver_runtime_management", "", "", NotShown, oneNode},
		{"gpu_sharing", "", "", NotShown, "whole cards"},
		{"virtualized_accelerator", "", "", Failed, "no vGPUs"},
		{isolationID, "", "", NotShown, "only pods can show it"},
	} {
		t.Run(tt.id+" "+string(tt.want), func(t *testing.T) {
			client, sim, way := kubetest.Kubernetes(t)
			way.Next = exporter{way.Next, tt.text}
			if tt.there != "" {
				require.NoError(t, sim.Apply(t.Context(), []byte(tt.there)))
			}
			s := Sources{Spec: gpuFile(), Root: nobody, Kube: func(context.Context) (*kube.Client, error) { return client, nil }}
			r, err := Check(t.Context(), s, nil)
			require.NoError(t, err)
			for _, f := range r.Findings {
				if f.ID == tt.id {
					assert.Equal(t, tt.want, f.Result, "%q", f.Evidence)
					assert.Contains(t, strings.Join(f.Evidence, "; "), tt.evidence)
					assert.Equal(t, tt.want == Passed || tt.want == NotApplicable, f.Do == "", f.Do)
				}
			}
		})
	}
}

// TestRefused: what the API refuses is a requirement that is not shown, with what it said; reading changes nothing.
func TestRefused(t *testing.T) {
	for at := 1; ; at++ {
		client, _, way := kubetest.Kubernetes(t)
		way.On, way.At = true, at
		r, err := Check(t.Context(), Sources{Spec: gpuFile(), Root: nobody, Kube: func(context.Context) (*kube.Client, error) { return client, nil }}, nil)
		if at > len(way.Seen) {
			assert.Greater(t, at, 5, "there is more to ask")
			break
		}
		for _, seen := range way.Seen {
			assert.True(t, strings.HasPrefix(seen, "GET "), seen)
		}
		if err != nil {
			require.ErrorContains(t, err, kubetest.Refusal)
			continue
		}
		var refused []string
		for _, f := range r.Findings {
			if strings.Contains(strings.Join(f.Evidence, " "), kubetest.Refusal) {
				assert.Equal(t, NotShown, f.Result, f.ID)
				refused = append(refused, f.ID)
			}
		}
		assert.NotEmpty(t, refused, "%d: %s", at, way.Seen[at-1])
	}
}

// TestListFor: the list is that of the version, the newest for one that is newer, and none for one that is older.
func TestListFor(t *testing.T) {
	for version, want := range map[string]int{"v1.33.1+k3s1": 33, "v1.36.5+k3s1": 36, "v1.37.0": newest, "v1.32.9": 0, "1.36": 0, "": 0, "v1.x.2": 0, "v2.36.1": 0} {
		got, err := listFor(version)
		assert.Equal(t, want, got, version)
		assert.Equal(t, want == 0, err != nil, version)
	}
	counts := map[int]int{33: 9, 34: 9, 35: 12, 36: 14} // as many as the programme's files have
	for list, want := range counts {
		n, must := 0, 0
		for _, q := range requirements() {
			switch q.levels[list-oldest] {
			case Must:
				must++
				n++
			case Should:
				n++
			}
		}
		assert.Equal(t, want, n, list)
		assert.Equal(t, map[int]int{33: 8, 34: 9, 35: 9, 36: 8}[list], must, list)
	}
}
