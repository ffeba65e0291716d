package kube_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube"
)

// twoNodes are answers of an API server. wk1 has two usable GPUs: another has a taint, and an older slice of its
// pool is about to be deleted. wk2 had a device plugin, whose GPUs its kubelet still names.
func twoNodes(asked *[]string, without string) answering {
	slice := func(node, generation, devices string) string {
		return `{"spec": {"driver": "gpu.nvidia.com", "nodeName": "` + node + `", "pool": {"name": "` + node + `", "generation": ` + generation + `}, "devices": [` + devices + `]}}`
	}
	gpu := `{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}`
	tainted := `{"name": "gpu-2", "attributes": {"type": {"string": "gpu"}}, "taints": [{"key": "xid", "effect": "NoSchedule"}]}`
	instance := `{"name": "mig", "attributes": {"type": {"string": "mig"}}}`
	node := func(name, gpus string) string {
		return `{"metadata": {"name": "` + name + `"}, "status": {"allocatable": {"cpu": "4", "nvidia.com/gpu": "` + gpus + `"}}}`
	}
	return func(r *http.Request) *http.Response {
		*asked = append(*asked, r.URL.Path+"?"+r.URL.Query().Get("fieldSelector"))
		code, body := http.StatusOK, ""
		switch r.URL.Path {
		case "/api/v1/nodes":
			body = `{"items": [` + node("wk1", "0") + `,` + node("wk2", "0") + `]}`
		case "/api/v1/nodes/wk1":
			body = node("wk1", "0")
		case "/apis/resource.k8s.io/v1/resourceslices":
			body = `{"items": [` + slice("wk1", "2", gpu+","+gpu+","+tainted+","+instance) + `,` + slice("wk1", "1", gpu) + `,` + slice("gone", "1", gpu) + `]}`
		}
		if r.URL.Path == without {
			code, body = http.StatusNotFound, `{"kind": "Status", "code": 404, "reason": "NotFound"}`
		}
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Request: r, Header: http.Header{"Content-Type": {"application/json"}}}
	}
}

func devices(t *testing.T, asked *[]string, d kube.Devices, without string) *kube.Client {
	t.Helper()
	c, err := kube.New(kube.Config{Kubeconfig: []byte(somewhere), Devices: d, Wrap: func(http.RoundTripper) http.RoundTripper { return twoNodes(asked, without) }})
	require.NoError(t, err)
	return c
}

func TestNodesCountDevices(t *testing.T) {
	gpus := kube.Devices{Driver: "gpu.nvidia.com", Type: "gpu", Resource: "nvidia.com/gpu"}
	var asked []string
	c := devices(t, &asked, gpus, "")
	all, err := c.Nodes(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"nvidia.com/gpu": 2}, all[0].Counts("nvidia.com/"))
	assert.Empty(t, all[1].Counts("nvidia.com/"))
	one, err := c.Node(t.Context(), "wk1")
	require.NoError(t, err)
	assert.EqualValues(t, 2, one.Count("nvidia.com/gpu"))
	assert.EqualValues(t, 4, one.Count("cpu"))
	assert.Equal(t, []string{"/api/v1/nodes?", "/apis/resource.k8s.io/v1/resourceslices?spec.driver=gpu.nvidia.com",
		"/api/v1/nodes/wk1?", "/apis/resource.k8s.io/v1/resourceslices?spec.driver=gpu.nvidia.com,spec.nodeName=wk1"}, asked)

	asked = nil
	one, err = devices(t, &asked, kube.Devices{}, "").Node(t.Context(), "wk1")
	require.NoError(t, err)
	assert.Zero(t, one.Count("nvidia.com/gpu"))
	assert.Len(t, asked, 1, "nobody asks for devices of no driver")

	one, err = devices(t, &asked, gpus, "/apis/resource.k8s.io/v1/resourceslices").Node(t.Context(), "wk1")
	require.NoError(t, err, "an older Kubernetes has no devices")
	assert.Zero(t, one.Count("nvidia.com/gpu"))
}

func TestLacks(t *testing.T) {
	for reason, want := range map[string]bool{
		"Unschedulable: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.":                     true,
		"Unschedulable: 0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) are wrong.": true,
		"Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.":                                false,
		"": false,
	} {
		assert.Equal(t, want, kube.Lacks(reason, "nvidia.com/gpu"), reason)
	}
}
