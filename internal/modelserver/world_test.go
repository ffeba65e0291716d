package modelserver_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/modelengine"
)

// world is a control plane whose kubelets are this test: it sets what pods say of themselves, has their
// logs, and serves what listens in them.
type world struct {
	*kube.Client
	api kubernetes.Interface

	mu     sync.Mutex
	logs   map[string]string // by container; with " before" for the one before its restart
	engine http.Handler
	fail   func(*http.Request) error // of our own requests; nil: none
}

func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{logs: map[string]string{}}
		listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		pods := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.engine.ServeHTTP(rw, r) }), ReadHeaderTimeout: time.Minute}
		go func() { _ = pods.Serve(listener) }()
		t.Cleanup(func() { close(listener.done); _ = pods.Close() })
		plane, err := kubesim.NewPlane(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"}, kubesim.Backends{
			Kubelet: func(string) http.Handler { return http.HandlerFunc(w.serveLogs) },
			Dial: func(context.Context, string) (net.Conn, error) {
				near, far := net.Pipe()
				listener.conns <- far
				return near, nil
			},
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, plane.Close()) })
		kubeconfig := plane.Kubeconfig("https://10.0.0.10:6443")
		w.Client, err = kube.New(kube.Config{Kubeconfig: kubeconfig, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return plane.Dial(ctx) },
			Wrap: func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if w.fail != nil {
						if err := w.fail(r); err != nil {
							return nil, err
						}
					}
					return next.RoundTrip(r)
				})
			}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = w.Close() })
		config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		require.NoError(t, err)
		config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return plane.Dial(ctx) }
		config.QPS, config.Burst = 1000, 1000
		client, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		w.api = client
		_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: modelserver.Namespace}}, metav1.CreateOptions{})
		require.NoError(t, err)
		test(t, w)
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (w *world) serveLogs(rw http.ResponseWriter, r *http.Request) {
	container := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if r.URL.Query().Get("previous") == "true" {
		container += " before"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	text, ok := w.logs[container]
	if !ok {
		http.Error(rw, "no such log", http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(rw, text)
}

// model makes a model with one pod of this state.
func (w *world) model(t *testing.T, name string, status corev1.PodStatus) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{modelserver.ComponentLabel: modelserver.Component, modelserver.NameLabel: name}
	one := int32(1)
	limits := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi")}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: modelserver.Namespace, Labels: labels, Annotations: map[string]string{
		modelserver.SourceNote: "of/" + name, modelserver.EngineNote: "vllm", modelserver.ContextNote: "4096",
	}}}
	d.Spec.Replicas, d.Spec.Selector = &one, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "engine", Image: "vllm/vllm-openai:v0.11.0", Resources: corev1.ResourceRequirements{Limits: limits},
		Ports: []corev1.ContainerPort{{Name: modelserver.PortName, ContainerPort: 8000}}}}
	d, err := w.api.AppsV1().Deployments(d.Namespace).Create(t.Context(), d, metav1.CreateOptions{})
	require.NoError(t, err)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: modelserver.Namespace}}
	service.Spec.Selector, service.Spec.Ports = labels, []corev1.ServicePort{{Name: modelserver.PortName, Port: 8000, TargetPort: intstr.FromString(modelserver.PortName)}}
	_, err = w.api.CoreV1().Services(service.Namespace).Create(t.Context(), service, metav1.CreateOptions{})
	require.NoError(t, err)
	w.settle(t, name, status)
	return d
}

// settle waits for a model's pod, and has it be on a node, in a state.
func (w *world) settle(t *testing.T, name string, status corev1.PodStatus) {
	t.Helper()
	time.Sleep(10 * time.Second)
	pods := w.api.CoreV1().Pods(modelserver.Namespace)
	list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: modelserver.NameLabel + "=" + name})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	p := &list.Items[0]
	if status.Phase != "" && p.Spec.NodeName == "" {
		require.NoError(t, pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "wk1"}}, metav1.CreateOptions{}))
		p, err = pods.Get(t.Context(), p.Name, metav1.GetOptions{})
		require.NoError(t, err)
	}
	if status.Phase != "" {
		p.Status = status
		_, err = pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	time.Sleep(10 * time.Second)
}

// container is the state of a pod's only container.
func container(c corev1.ContainerStatus) corev1.PodStatus {
	c.Name = "engine"
	s := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.42.0.9", ContainerStatuses: []corev1.ContainerStatus{c}}
	if c.Ready {
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return s
}

// up is a container that serves.
func up() corev1.PodStatus {
	return container(corev1.ContainerStatus{Ready: true, State: running()})
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
}

func ended(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// vllm is the played engine of a model.
func vllm(t *testing.T, name string) http.Handler {
	t.Helper()
	e, ok := modelengine.New("vllm/vllm-openai:v0.11.0", []string{"--model=of/" + name, "--served-model-name=" + name, "--max-model-len=4096"})
	require.True(t, ok)
	return e.Handler(func() bool { return true })
}

// only lists one model.
func (w *world) only(t *testing.T) modelserver.Server {
	t.Helper()
	all, err := modelserver.List(t.Context(), w.Client)
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// said answers every request with a status and a text.
func said(code int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, text)
	})
}
