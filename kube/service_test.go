package kube_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// proxied is a control plane that leads to one program in all pods, and to kubelets with one log.
func proxied(t *testing.T, program http.Handler) *kube.Client {
	t.Helper()
	server := httptest.NewServer(program)
	t.Cleanup(server.Close)
	plane, err := kubesim.NewPlane(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"}, kubesim.Backends{
		Kubelet: func(string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				_, _ = fmt.Fprintf(w, "%s %s %s\n", r.URL.Path, q.Get("tailLines"), q.Get("previous"))
			})
		},
		Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = plane.Close() })
	kubeconfig := plane.Kubeconfig("https://10.0.0.10:6443")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return plane.Dial(ctx) }
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	config.Dial = dial
	api, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	labels := map[string]string{"app": "web"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels}, Spec: corev1.PodSpec{NodeName: "wk1", Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
	pod, err = api.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.42.0.9", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	_, err = api.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	for name, selector := range map[string]map[string]string{"web": labels, "empty": {"app": "none"}} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
		_, err = api.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	c, err := kube.New(kube.Config{Kubeconfig: kubeconfig, Dial: dial})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A program's answer is the caller's, whatever it is, and comes as it is written; the API server's is an error.
func TestAskService(t *testing.T) {
	more := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/echo", func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Authorization"))
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		_, _ = io.Copy(w, r.Body)
	})
	mux.HandleFunc("GET /teapot", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, `{"error":"short"}`)
	})
	mux.Handle("GET /away", http.RedirectHandler("https://elsewhere.example/", http.StatusFound))
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, "second")
	})
	c := proxied(t, mux)
	ask := func(service, path string, body any) (*http.Response, error) {
		return c.AskService(t.Context(), kube.ServiceRequest{Namespace: "default", Service: service, Port: "http", Path: path, Body: body})
	}
	for _, x := range []struct {
		path string
		body any
		code int
		said string
	}{{"/v1/echo", map[string]int{"a": 1}, 200, `{"a":1}`}, {"/teapot", nil, 418, `{"error":"short"}`}, {"/nowhere", nil, 404, "404 page not found\n"}} {
		resp, err := ask("web", x.path, x.body)
		require.NoError(t, err)
		said, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, x.code, resp.StatusCode)
		assert.Equal(t, x.said, string(said))
		require.NoError(t, resp.Body.Close())
	}
	resp, err := ask("web", "/slow", nil)
	require.NoError(t, err)
	first := make([]byte, 5)
	_, err = io.ReadFull(resp.Body, first)
	require.NoError(t, err)
	assert.Equal(t, "first", string(first))
	close(more)
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "second", string(rest))
	require.NoError(t, resp.Body.Close())

	_, err = ask("empty", "/", nil)
	require.ErrorContains(t, err, `ask service default/empty for /: the API server does not answer: no endpoints available for service "empty"`)
	_, err = ask("none", "/", nil)
	require.ErrorIs(t, err, kube.ErrNotFound)
	_, err = ask("web", "/away", nil)
	require.ErrorContains(t, err, "leads to https://elsewhere.example, which is not followed")
}

func TestPodLog(t *testing.T) {
	c := proxied(t, http.NotFoundHandler())
	log, err := c.PodLog(t.Context(), "default", "web", "main", 20, false)
	require.NoError(t, err)
	assert.Equal(t, "/containerLogs/default/web/main 20 \n", log)
	log, err = c.PodLog(t.Context(), "default", "web", "main", 20, true)
	require.NoError(t, err)
	assert.Equal(t, "/containerLogs/default/web/main 20 true\n", log)
	_, err = c.PodLog(t.Context(), "default", "none", "main", 20, false)
	require.ErrorIs(t, err, kube.ErrNotFound)
}
