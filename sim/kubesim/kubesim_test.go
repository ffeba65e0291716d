package kubesim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/sim/facts"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// api speaks plain HTTP to a cluster, so that what is tested is the wire.
type api struct {
	t    *testing.T
	c    *kubesim.Cluster
	http *http.Client
}

func bubble(t *testing.T, test func(t *testing.T, a api)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim := &kubesim.Sim{}
		plane, err := sim.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, ServiceCIDR: netip.MustParsePrefix("10.43.0.0/16"), Version: "v1.36.5+k3s1"})
		require.NoError(t, err)
		c := sim.Clusters()[0]
		assert.Same(t, c, plane)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig("https://10.0.0.10:6443"))
		require.NoError(t, err)
		tls, err := rest.TLSConfigFor(config)
		require.NoError(t, err)
		transport := &http.Transport{TLSClientConfig: tls, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) }}
		t.Cleanup(transport.CloseIdleConnections)
		test(t, api{t: t, c: c, http: &http.Client{Transport: transport}})
	})
}

// do makes a request and returns the answer's code and body.
func (a api) do(method, path, contentType, body string) (int, map[string]any) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, "https://10.0.0.10:6443"+path, bytes.NewBufferString(body))
	require.NoError(a.t, err)
	req.Header.Set("Content-Type", contentType)
	resp, err := a.http.Do(req)
	require.NoError(a.t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(a.t, err)
	var out map[string]any
	if resp.Header.Get("Content-Type") == "application/json" {
		require.NoError(a.t, json.Unmarshal(b, &out), string(b))
	}
	return resp.StatusCode, out
}

func (a api) get(path string) (int, map[string]any) { return a.do(http.MethodGet, path, "", "") }

func withVersion(v any, keys ...string) any {
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

func TestVerbs(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	bubble(t, func(t *testing.T, a api) {
		code, out := a.do("POST", maps, "application/json", `{"metadata":{"name":"a","labels":{"x":"1"}},"data":{"k":"v"},"kind":"ConfigMap","apiVersion":"v1"}`)
		assert.Equal(t, 201, code, out)
		code, out = a.do("POST", maps, "application/json", `{"metadata":{"name":"a"},"kind":"ConfigMap","apiVersion":"v1"}`)
		assert.Equal(t, 409, code)
		assert.Equal(t, "AlreadyExists", out["reason"])
		code, out = a.do("POST", "/api/v1/namespaces/none/configmaps", "application/json", `{"metadata":{"name":"a"},"kind":"ConfigMap","apiVersion":"v1"}`)
		assert.Equal(t, 404, code)
		assert.Equal(t, `namespaces "none" not found`, out["message"])

		code, out = a.do("PATCH", maps+"/a", "application/merge-patch+json", `{"data":{"k":null,"l":"w"}}`)
		assert.Equal(t, 200, code)
		assert.Equal(t, map[string]any{"l": "w"}, out["data"])
		rv := withVersion(out, "metadata", "resourceVersion")
		code, out = a.do("PATCH", maps+"/a", "application/strategic-merge-patch+json", `{"metadata":{"resourceVersion":"1"},"data":{"k":"v"}}`)
		assert.Equal(t, 409, code)
		assert.Equal(t, "Conflict", out["reason"])
		code, out = a.do("PATCH", maps+"/a?dryRun=All", "application/strategic-merge-patch+json", `{"data":{"m":"x"}}`)
		assert.Equal(t, 200, code)
		assert.Equal(t, map[string]any{"l": "w", "m": "x"}, out["data"])
		_, out = a.get(maps + "/a")
		assert.Equal(t, rv, withVersion(out, "metadata", "resourceVersion"), "a dry run changes nothing")

		for query, n := range map[string]int{"": 2, "?labelSelector=x%3D1": 1, "?labelSelector=x!%3D1": 1, // the other is kube-root-ca.crt
			"?fieldSelector=metadata.name%3Da": 1, "?fieldSelector=metadata.name!%3Da": 1} {
			_, out = a.get(maps + query)
			assert.Len(t, out["items"], n, query)
		}
		code, out = a.do("PATCH", maps+"/a", "application/json-patch+json", `[{"op":"add","path":"/data/n","value":"y"}]`)
		assert.Equal(t, 200, code)
		assert.Equal(t, map[string]any{"l": "w", "n": "y"}, out["data"])
		code, _ = a.do("PATCH", maps+"/a", "text/plain", `[]`)
		assert.Equal(t, 415, code)
		code, out = a.get(maps + "?watch=true&timeoutSeconds=1&labelSelector=x%3D1")
		assert.Equal(t, 200, code)
		assert.Equal(t, "ADDED", out["type"])
		code, _ = a.do("DELETE", maps+"/a", "", "")
		assert.Equal(t, 200, code)
		code, out = a.get(maps + "/a")
		assert.Equal(t, 404, code)
		assert.Equal(t, `configmaps "a" not found`, out["message"])
		code, out = a.get("/apis/none/v1/things")
		assert.Equal(t, 404, code)
		assert.Equal(t, "the server could not find the requested resource", out["message"])
	})
}

func TestServerSideApply(t *testing.T) {
	const one = "/api/v1/namespaces/default/configmaps/a"
	const yaml = "application/apply-patch+yaml"
	bubble(t, func(t *testing.T, a api) {
		code, out := a.do("PATCH", one+"?fieldManager=x", yaml, "{apiVersion: v1, kind: ConfigMap, data: {k: v, l: w}}")
		assert.Equal(t, 201, code, out)
		code, out = a.do("PATCH", one+"?fieldManager=y", yaml, "{apiVersion: v1, kind: ConfigMap, data: {k: other}}")
		assert.Equal(t, 409, code)
		assert.Contains(t, out["message"], `conflict with "x": .data.k`)
		code, out = a.do("PATCH", one+"?fieldManager=y&force=true", yaml, "{apiVersion: v1, kind: ConfigMap, data: {k: other}}")
		assert.Equal(t, 200, code)
		assert.Equal(t, map[string]any{"k": "other", "l": "w"}, out["data"])
		_, out = a.do("PATCH", one+"?fieldManager=x", yaml, "{apiVersion: v1, kind: ConfigMap}")
		assert.Equal(t, map[string]any{"k": "other"}, out["data"], "what x no longer asks for goes, what y took stays")
		rv := withVersion(out, "metadata", "resourceVersion")
		_, out = a.do("PATCH", one+"?fieldManager=x", yaml, "{apiVersion: v1, kind: ConfigMap}")
		assert.Equal(t, rv, withVersion(out, "metadata", "resourceVersion"), "applying the same writes nothing")
		code, out = a.do("PATCH", one+"?fieldManager=x", yaml, "{apiVersion: v1, kind: ConfigMap, dta: {}}")
		assert.GreaterOrEqual(t, code, 400)
		assert.Contains(t, out["message"], "dta")
		code, _ = a.do("PATCH", one, yaml, "{apiVersion: v1, kind: ConfigMap}")
		assert.Equal(t, 200, code, "the user agent stands for the manager")
	})
}

func TestGarbageGoesWithItsOwner(t *testing.T) {
	bubble(t, func(t *testing.T, a api) {
		join(t, a.c, "wk1", 0)
		require.NoError(t, a.c.Apply(t.Context(), []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: x}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: x}
spec:
  replicas: 3
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: c}]}}
`)))
		time.Sleep(20 * time.Second)
		_, out := a.get("/api/v1/namespaces/x/pods?fieldSelector=status.phase%3DRunning")
		assert.Len(t, out["items"], 3)
		_, out = a.get("/apis/apps/v1/namespaces/x/deployments/d")
		assert.EqualValues(t, 3, withVersion(out, "status", "readyReplicas"))
		a.do("DELETE", "/apis/apps/v1/namespaces/x/deployments/d", "", "")
		time.Sleep(5 * time.Second)
		_, out = a.get("/api/v1/namespaces/x/pods")
		assert.Empty(t, out["items"])
		a.do("DELETE", "/api/v1/namespaces/x", "", "")
		time.Sleep(5 * time.Second)
		code, _ := a.get("/api/v1/namespaces/x")
		assert.Equal(t, 404, code)
	})
}

// TestGPUIsLostAndFound is the chain that makes a GPU allocatable: a driver that
// appears after the device plugin's pod was bound is noticed, and so is one that
// goes.
const pluginManifest = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: plugin, namespace: kube-system}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {runtimeClassName: nvidia, containers: [{name: c, image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.1"}]}}
`

func TestGPUIsLostAndFound(t *testing.T) {
	bubble(t, func(t *testing.T, a api) {
		var mu sync.Mutex
		gpus := 0
		n := node("wk1", 0)
		n.GPUs = func() []guest.GPU { mu.Lock(); defer mu.Unlock(); return make([]guest.GPU, gpus) }
		require.NoError(t, a.c.Join(t.Context(), n))
		require.NoError(t, a.c.Apply(t.Context(), []byte(pluginManifest)))
		time.Sleep(30 * time.Second)
		allocatable := func() any {
			_, out := a.get("/api/v1/nodes/wk1")
			return withVersion(out, "status", "allocatable", "nvidia.com/gpu")
		}
		assert.Nil(t, allocatable())
		_, out := a.get("/api/v1/namespaces/kube-system/events?fieldSelector=type%3DWarning")
		require.Len(t, out["items"], 1)
		assert.Contains(t, withVersion(out["items"].([]any)[0], "message"), `no runtime for "nvidia" is configured`)
		mu.Lock()
		gpus = 2
		mu.Unlock()
		time.Sleep(30 * time.Second)
		assert.Equal(t, "2", allocatable())
		a.c.Leave("wk1")
		time.Sleep(time.Minute)
		_, out = a.get("/api/v1/nodes/wk1")
		assert.Equal(t, "Unknown", withVersion(withVersion(out, "status", "conditions").([]any)[0], "status"))
		require.NoError(t, a.c.Join(t.Context(), n))
		time.Sleep(20 * time.Second)
		_, out = a.get("/api/v1/nodes/wk1")
		assert.Equal(t, "True", withVersion(withVersion(out, "status", "conditions").([]any)[0], "status"))
		assert.Equal(t, "2", allocatable())

		// It comes back without its driver: Ready, with no GPUs.
		a.c.Leave("wk1")
		mu.Lock()
		gpus = 0
		mu.Unlock()
		time.Sleep(time.Minute)
		require.NoError(t, a.c.Join(t.Context(), n))
		time.Sleep(20 * time.Second)
		_, out = a.get("/api/v1/nodes/wk1")
		assert.Equal(t, "True", withVersion(withVersion(out, "status", "conditions").([]any)[0], "status"))
		assert.Equal(t, "0", allocatable())
	})
}

func TestLabelsComeAgainAndTaintsDoNot(t *testing.T) {
	bubble(t, func(t *testing.T, a api) {
		n := node("wk1", 0)
		n.Labels, n.Taints = map[string]string{"tier": "silver"}, []string{"a=b:NoSchedule"}
		require.NoError(t, a.c.Join(t.Context(), n))
		a.c.Leave("wk1")
		n.Labels, n.Taints = map[string]string{"tier": "gold"}, []string{"c=d:NoSchedule"}
		require.NoError(t, a.c.Join(t.Context(), n))
		time.Sleep(time.Minute)
		_, out := a.get("/api/v1/nodes/wk1")
		assert.Equal(t, "gold", withVersion(out, "metadata", "labels", "tier"))
		assert.Equal(t, "wk1", withVersion(out, "metadata", "labels", "kubernetes.io/hostname"))
		taints := withVersion(out, "spec", "taints").([]any)
		require.Len(t, taints, 1)
		assert.Equal(t, "a", withVersion(taints[0], "key"))
	})
}

func TestCloseEndsWhatRuns(t *testing.T) {
	bubble(t, func(t *testing.T, a api) {
		ended := make(chan error, 1)
		n := node("wk1", 0)
		n.Run = func(ctx context.Context, _ guest.Container) (int, string, string) {
			<-ctx.Done()
			ended <- ctx.Err()
			return 137, "", ""
		}
		require.NoError(t, a.c.Join(t.Context(), n))
		require.NoError(t, a.c.Apply(t.Context(), []byte(`
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}}
`)))
		time.Sleep(time.Minute)
		require.NoError(t, a.c.Close())
		require.ErrorIs(t, <-ended, context.Canceled)
		_, err := a.c.Dial(t.Context())
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// TestKubectl has the real kubectl look at a cluster, over a real socket.
func TestKubectl(t *testing.T) {
	program := facts.Program(t, "kubectl", "kubernetes-client")
	c, err := kubesim.New(t.Context(), guest.PlaneConfig{Version: "v1.36.5+k3s1"}, 1000)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	join(t, c, "wk1", 2)
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	go forward(t.Context(), l, c)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, c.Kubeconfig("https://"+l.Addr().String()), 0o600))
	kubectl := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig", kubeconfig, "--cache-dir", t.TempDir()}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	assert.Equal(t, "node/wk1\n", kubectl("get", "nodes", "-o", "name"))
	assert.Contains(t, kubectl("cordon", "wk1"), "cordoned")
	assert.Equal(t, "true", kubectl("get", "node", "wk1", "-o", "jsonpath={.spec.unschedulable}"))
	assert.Contains(t, kubectl("label", "node", "wk1", "pool=gpu"), "labeled")
	assert.Contains(t, kubectl("taint", "node", "wk1", "a=b:NoSchedule"), "tainted")
	assert.Contains(t, kubectl("get", "nodes"), "wk1")
}

func forward(ctx context.Context, l net.Listener, c *kubesim.Cluster) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		api, err := c.Dial(ctx)
		if err != nil {
			_ = conn.Close()
			return
		}
		go func() { _, _ = io.Copy(api, conn); _ = api.Close() }()
		go func() { _, _ = io.Copy(conn, api); _ = conn.Close() }()
	}
}

func node(name string, gpus int) guest.Node {
	return guest.Node{Name: name, Role: "agent", InternalIP: netip.MustParseAddr("10.0.0.21"), CPUs: 8, Memory: 32 << 30, Version: "v1.36.5+k3s1",
		GPUs: func() []guest.GPU { return make([]guest.GPU, gpus) }}
}

func join(t *testing.T, c *kubesim.Cluster, name string, gpus int) {
	t.Helper()
	require.NoError(t, c.Join(t.Context(), node(name, gpus)))
}
