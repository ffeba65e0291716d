package modelengine_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/modelengine"
)

const (
	vllm     = "registry.lan/vllm/vllm-openai:v0.11.0"
	llamaCpp = "ghcr.io/ggml-org/llama.cpp:server-cuda-b7100@sha256:00"
	gib      = 1 << 30
)

func TestCommandLines(t *testing.T) {
	for args, want := range map[string]modelengine.Engine{
		vllm + " --model=Qwen/Qwen2.5-7B-Instruct --served-model-name qwen --max-model-len 8192": {Kind: modelengine.VLLM, Version: "v0.11.0", Name: "qwen", Source: "Qwen/Qwen2.5-7B-Instruct", Context: 8192},
		vllm + " vllm serve Qwen/Qwen3-4B --tensor-parallel-size=2":                              {Kind: modelengine.VLLM, Version: "v0.11.0", Name: "Qwen/Qwen3-4B", Source: "Qwen/Qwen3-4B"},
		llamaCpp + " -hf ggml-org/gemma-3-4b-it-GGUF:Q4_K_M --alias gemma -c 4096 -ngl 99":       {Kind: modelengine.LlamaCpp, Version: "server-cuda-b7100", Name: "gemma", Source: "ggml-org/gemma-3-4b-it-GGUF:Q4_K_M", Context: 4096},
	} {
		words := strings.Fields(args)
		e, ok := modelengine.New(words[0], words[1:])
		require.True(t, ok, args)
		assert.Equal(t, []any{want.Kind, want.Version, want.Name, want.Source, want.Context}, []any{e.Kind, e.Version, e.Name, e.Source, e.Context}, args)
	}
	for _, other := range []string{"busybox:1", vllm} {
		_, ok := modelengine.New(other, nil)
		assert.False(t, ok, other)
	}
}

// A model that does not fit, or may not be read, ends with the engine's own words.
func TestLoad(t *testing.T) {
	cards := func(each float64, n int) modelengine.Machine {
		m := modelengine.Machine{}
		for range n {
			m.Cards = append(m.Cards, each*gib)
		}
		return m
	}
	for name, x := range map[string]struct {
		image, args string
		on          modelengine.Machine
		code        int
		last        string
	}{
		"fits":                   {vllm, "--model Qwen/Qwen2.5-7B-Instruct", cards(24, 1), 0, "Application startup complete."},
		"weights do not":         {vllm, "--model Qwen/Qwen2.5-7B-Instruct", cards(8, 1), 1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 8.00 GiB"},
		"quantized they do":      {vllm, "--model Qwen/Qwen2.5-7B-Instruct-AWQ", cards(8, 1), 0, "Application startup complete."},
		"on two cards they do":   {vllm, "--model Qwen/Qwen2.5-7B-Instruct", cards(10, 2), 0, "Application startup complete."},
		"no room for a cache":    {vllm, "--model x/y-7B --gpu-memory-utilization 0.5", cards(24, 1), 1, "No available memory for the cache blocks"},
		"no size in its name":    {vllm, "--model microsoft/phi-4", cards(8, 1), 0, "Application startup complete."},
		"gated":                  {vllm, "--model meta-llama/Llama-3.1-8B-Instruct", cards(24, 1), 1, "Access to model meta-llama/Llama-3.1-8B-Instruct is restricted"},
		"with a token":           {vllm, "--model meta-llama/Llama-3.1-8B-Instruct", modelengine.Machine{Cards: []float64{24 * gib}, Token: true}, 0, "Application startup complete."},
		"no card":                {vllm, "--model x/y", cards(0, 0), 1, "Failed to infer device type"},
		"llama.cpp":              {llamaCpp, "-hf a/b-7B-GGUF:Q4_K_M", cards(8, 1), 0, "server is listening on http://0.0.0.0:8000"},
		"llama.cpp does not fit": {llamaCpp, "-hf a/b-70B-GGUF:Q4_K_M", cards(24, 1), 1, "cudaMalloc failed: out of memory"},
	} {
		e, ok := modelengine.New(x.image, strings.Fields(x.args))
		require.True(t, ok, name)
		start := e.Load(x.on, time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC))
		assert.Equal(t, x.code, start.Code, name)
		assert.Contains(t, strings.Join(start.Lines, "\n"), x.last, name)
	}
}

// call asks an engine, and returns the status and the body.
func call(t *testing.T, e modelengine.Engine, ready bool, method, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	e.Handler(func() bool { return ready }).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestErrors(t *testing.T) {
	v, _ := modelengine.New(vllm, []string{"--model", "a/b", "--served-model-name", "b", "--max-model-len", "20"})
	l, _ := modelengine.New(llamaCpp, []string{"-hf", "a/b", "--alias", "b"})
	const chat = "/v1/chat/completions"
	for _, x := range []struct {
		e          modelengine.Engine
		ready      bool
		method     string
		path, body string
		code       int
		says       string
	}{
		{v, true, "GET", "/health", "", 200, ""},
		{v, false, "GET", "/health", "", 503, ""},
		{l, true, "GET", "/health", "", 200, `{"status":"ok"}`},
		{l, false, "GET", "/health", "", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`},
		{l, false, "POST", chat, `{}`, 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`},
		{v, true, "POST", chat, `{"model":"c","messages":[{"role":"user","content":"x"}]}`, 404, `{"error":{"code":404,"message":"The model ` + "`c`" + ` does not exist.","param":"model","type":"NotFoundError"}}`},
		{v, true, "POST", chat, `{"model":"b","messages":[{"role":"user","content":"` + strings.Repeat("x ", 30) + `"}]}`, 400, "This model's maximum context length is 20 tokens."},
		{v, true, "POST", chat, `{"model":"b"}`, 400, `"type":"BadRequestError"`},
		{v, true, "POST", chat, `nonsense`, 400, `"type":"BadRequestError"`},
		{l, true, "POST", chat, `nonsense`, 400, `"type":"invalid_request_error"`},
		{v, true, "GET", "/nowhere", "", 404, `{"detail":"Not Found"}`},
		{l, true, "GET", "/nowhere", "", 404, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`},
	} {
		code, said := call(t, x.e, x.ready, x.method, x.path, x.body)
		assert.Equal(t, x.code, code, "%s %s", x.path, x.body)
		assert.Contains(t, said, x.says)
	}
	code, said := call(t, l, true, "POST", chat, `{"model":"whatever","messages":[{"role":"user","content":"x"}],"max_tokens":4}`)
	assert.Equal(t, http.StatusOK, code, "llama.cpp's server ignores the name")
	assert.Contains(t, said, `"content":"This is the lab:"`)
	assert.Contains(t, said, `"finish_reason":"length"`)
}

// A stream has an event for each token, its usage only if that was asked for, and an end.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := modelengine.New(vllm, []string{"--model", "a/b"})
		for _, usage := range []bool{true, false} {
			body, err := json.Marshal(map[string]any{"model": "a/b", "messages": []any{map[string]any{"role": "user", "content": "x"}}, "max_tokens": 5, "stream": true,
				"stream_options": map[string]any{"include_usage": usage}})
			require.NoError(t, err)
			began := time.Now()
			_, said := call(t, e, true, "POST", "/v1/chat/completions", string(body))
			assert.Equal(t, 50*time.Millisecond, time.Since(began))
			events := bytes.Split([]byte(said), []byte("\n\n"))
			want := 1 + 5 + 1 + 1 // the role, tokens, why it ended, and [DONE]
			if usage {
				want++
				assert.Contains(t, said, `"choices":[]`)
				assert.Contains(t, said, `"completion_tokens":5`)
			}
			assert.Len(t, events, want)
			assert.Equal(t, "data: [DONE]", string(events[len(events)-1]))
		}
	})
}
