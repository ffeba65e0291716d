package modelserver_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube"
)

func TestNoModels(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		all, err := modelserver.List(t.Context(), w.Client)
		require.NoError(t, err)
		assert.Empty(t, all)
	})
}

func TestAModelAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.model(t, "qwen", up())
		w.engine = vllm(t, "qwen")
		s := w.only(t)
		assert.Equal(t, modelserver.Server{Name: "qwen", Engine: "vllm", Source: "of/qwen", Context: 4096, Ready: 1, Wanted: 1, GPUs: 2,
			Nodes: []string{"wk1"}, Address: "http://qwen.models.svc:8000/v1", State: modelserver.Ready}, s)
		a, err := s.Verify(t.Context(), w.Client, nil)
		require.NoError(t, err)
		assert.Equal(t, 10*time.Millisecond, a.FirstToken)
		assert.InDelta(t, 100, a.Rate, 0.01)
		assert.Contains(t, a.Text, "This is the lab")
		assert.Equal(t, len(strings.Fields(a.Text)), a.Tokens)
	})
}

// Each state of a pod is a word and what to do.
func TestStates(t *testing.T) {
	const oom = "INFO 11-29 03:00:00 [gpu_model_runner.py:2602] Starting to load model of/qwen...\n" +
		"(EngineCore_DP0 pid=112) ERROR 11-29 03:00:00 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 7.79 GiB of which 101.44 MiB is free.\n" +
		"(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
	crashed := func(c corev1.ContainerStatus) corev1.PodStatus {
		c.RestartCount = 3
		return container(c)
	}
	for name, x := range map[string]struct {
		status corev1.PodStatus
		logs   map[string]string
		state  modelserver.State
		detail string
	}{
		"no node":     {state: modelserver.Pending, detail: "no nodes available to schedule pods"},
		"image":       {status: container(corev1.ContainerStatus{State: waiting("ImagePullBackOff", "not found")}), state: modelserver.Pending, detail: "container engine: ImagePullBackOff: not found"},
		"silent":      {status: container(corev1.ContainerStatus{State: running()}), state: modelserver.Loading, detail: "its container engine runs and has written nothing yet"},
		"loading":     {status: container(corev1.ContainerStatus{State: running()}), logs: map[string]string{"engine": "INFO 11-29 03:00:00 [weight_utils.py:392] a\nLoading safetensors checkpoint shards:  25% Completed\n\n"}, state: modelserver.Loading, detail: "Loading safetensors checkpoint shards:  25% Completed"},
		"too large":   {status: crashed(corev1.ContainerStatus{State: waiting("CrashLoopBackOff", ""), LastTerminationState: ended(1, "Error")}), logs: map[string]string{"engine before": oom}, state: modelserver.Crashed, detail: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 7.79 GiB of which 101.44 MiB is free: the model needs more memory than its GPUs have: take a quantized one, write a smaller context, or more gpus (restarts: 3)"},
		"again":       {status: crashed(corev1.ContainerStatus{State: running(), LastTerminationState: ended(1, "Error")}), logs: map[string]string{"engine before": oom, "engine": "starting\n"}, state: modelserver.Crashed, detail: "CUDA out of memory"},
		"just ended":  {status: container(corev1.ContainerStatus{State: ended(1, "Error")}), logs: map[string]string{"engine": "a\nValueError: b\nc\n"}, state: modelserver.Crashed, detail: "ValueError: b"},
		"old driver":  {status: crashed(corev1.ContainerStatus{State: running(), LastTerminationState: ended(1, "Error")}), logs: map[string]string{"engine before": "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).\n"}, state: modelserver.Crashed, detail: "(found version 12020): this engine needs a newer driver: write a later nvidia.driver.branch"},
		"no log":      {status: crashed(corev1.ContainerStatus{State: waiting("CrashLoopBackOff", ""), LastTerminationState: ended(137, "Error")}), state: modelserver.Crashed, detail: "container engine ended with exit status 137 and wrote nothing (restarts: 3)"},
		"main memory": {status: crashed(corev1.ContainerStatus{State: waiting("CrashLoopBackOff", ""), LastTerminationState: ended(137, "OOMKilled")}), state: modelserver.Crashed, detail: "more main memory than its limit (restarts: 3)"},
		"recovered":   {status: crashed(corev1.ContainerStatus{State: running(), LastTerminationState: ended(143, "Error")}), logs: map[string]string{"engine before": "Shutting down\n", "engine": "loading\n"}, state: modelserver.Loading, detail: "loading"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.model(t, "qwen", x.status)
				w.logs = x.logs
				s := w.only(t)
				assert.Equal(t, x.state, s.State)
				assert.Contains(t, s.Detail, x.detail)
				_, err := s.Verify(t.Context(), w.Client, nil)
				require.ErrorContains(t, err, x.detail)
			})
		})
	}
}

func TestOff(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		d := w.model(t, "qwen", up())
		zero := int32(0)
		d.Spec.Replicas, d.ResourceVersion = &zero, ""
		_, err := w.api.AppsV1().Deployments(d.Namespace).Update(t.Context(), d, metav1.UpdateOptions{})
		require.NoError(t, err)
		s := w.only(t)
		assert.Equal(t, modelserver.Off, s.State)
		_, err = s.Verify(t.Context(), w.Client, nil)
		require.ErrorContains(t, err, "it is off: replicas is 0")

		d.Annotations[modelserver.AwakeNote] = "08:00-23:00 Europe/Vienna"
		_, err = w.api.AppsV1().Deployments(d.Namespace).Update(t.Context(), d, metav1.UpdateOptions{})
		require.NoError(t, err)
		s = w.only(t)
		assert.Equal(t, modelserver.Asleep, s.State)
		assert.Equal(t, "until 08:00 Europe/Vienna", s.Detail)
		_, err = s.Verify(t.Context(), w.Client, nil)
		require.ErrorContains(t, err, "it sleeps until 08:00 Europe/Vienna: kubectl -n models scale deployment qwen --replicas=1 wakes it")
	})
}

// What an engine answers wrongly is said in its words.
func TestWrongAnswers(t *testing.T) {
	list := `{"data":[{"id":"qwen"}]}`
	chat := func(code int, text string) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/v1/models", said(200, list))
		mux.Handle("/", said(code, text))
		return mux
	}
	for want, engine := range map[string]http.Handler{
		`it serves "of/other", and not qwen`:               said(200, `{"data":[{"id":"of/other"}]}`),
		"/v1/models: invalid character":                    said(200, "<html>"),
		"the engine answers HTTP 503: Loading model":       said(503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`),
		"HTTP 404: The model `qwen` does not exist.":       chat(404, "{\"error\":{\"message\":\"The model `qwen` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"),
		"HTTP 400: as vLLM wrote it":                       chat(400, `{"object":"error","message":"as vLLM wrote it","code":400}`),
		"HTTP 500: Internal Server Error":                  chat(500, "Internal Server Error\n"),
		"the engine says: EngineCore encountered an issue": chat(200, "data: {\"error\":{\"message\":\"EngineCore encountered an issue\"}}\n\ndata: [DONE]\n\n"),
		"the stream ended before the answer was complete":  chat(200, "data: {\"choices\":[{\"delta\":{\"content\":\"A\"}}]}\n\n"),
		"the stream has an event that is not JSON":         chat(200, "data: nonsense\n\n"),
		"the answer is empty":                              chat(200, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n"),
	} {
		t.Run(want, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.model(t, "qwen", up())
				w.engine = engine
				_, err := w.only(t).Verify(t.Context(), w.Client, nil)
				require.ErrorContains(t, err, want)
			})
		})
	}
}

// A pod that stopped being ready since it was listed, and an engine that never answers.
func TestNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.model(t, "qwen", up())
		s := w.only(t)
		w.engine = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		began := time.Now()
		_, err := s.Verify(t.Context(), w.Client, nil)
		require.ErrorContains(t, err, "no answer within 3m0s")
		assert.Equal(t, 3*time.Minute, time.Since(began))

		w.settle(t, "qwen", container(corev1.ContainerStatus{State: running()}))
		_, err = s.Verify(t.Context(), w.Client, nil)
		var refused *kube.Error
		require.ErrorAs(t, err, &refused)
		assert.ErrorContains(t, err, `no endpoints available for service "qwen`)
	})
}

// Each request may fail: then no result is a success, and the error says of which request.
func TestEachRequestMayFail(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.model(t, "qwen", container(corev1.ContainerStatus{State: running()}))
		w.engine = vllm(t, "qwen")
		visit := func() (n int, err error) {
			defer func() { w.fail = nil }()
			all, err := modelserver.List(t.Context(), w.Client)
			if err == nil && len(all) == 1 {
				_, err = all[0].Verify(t.Context(), w.Client, nil)
			}
			return len(all), err
		}
		errBroken := errors.New("connection reset by peer")
		for _, ready := range []bool{false, true} {
			if ready {
				w.settle(t, "qwen", up())
			}
			_, _ = visit() // kinds of objects are asked for once
			requests := 0
			w.fail = func(*http.Request) error { requests++; return nil }
			_, err := visit()
			require.Equal(t, ready, err == nil, "%v", err)
			require.Greater(t, requests, 2)
			for nth := range requests {
				at, path := 0, ""
				w.fail = func(r *http.Request) error {
					if at++; at == nth+1 {
						path = r.URL.Path
						return errBroken
					}
					return nil
				}
				_, err := visit()
				require.Error(t, err, "request %d", nth)
				if !strings.HasSuffix(path, "/log") { // without which the state is known
					require.ErrorIs(t, err, errBroken, "request %d: %s", nth, path)
				}
			}
		}
	})
}

// Two replicas, of which one is not ready: the model answers, and the list says why.
func TestOneOfTwo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.engine = vllm(t, "qwen")
		d := w.model(t, "qwen", up())
		two := int32(2)
		d.Spec.Replicas, d.ResourceVersion = &two, ""
		_, err := w.api.AppsV1().Deployments(d.Namespace).Update(t.Context(), d, metav1.UpdateOptions{})
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		s := w.only(t)
		assert.Equal(t, modelserver.Ready, s.State)
		assert.Equal(t, "1/2", fmt.Sprintf("%d/%d", s.Ready, s.Wanted))
		assert.Contains(t, s.Detail, "1 of 2 replicas are ready; another is pending: Unschedulable: no nodes available to schedule pods")
		_, err = s.Verify(t.Context(), w.Client, nil)
		require.NoError(t, err)
	})
}
