package plane_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// modelManifest is a model with its Service.
func modelManifest(name, image, gpus, args string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
  namespace: models
  labels: {app.kubernetes.io/component: model-server, app.kubernetes.io/name: %[1]s}
  annotations: {homelab.cps-gpu.github.com/model: of/%[1]s, homelab.cps-gpu.github.com/engine: vllm, homelab.cps-gpu.github.com/context: "4096"}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: %[1]s}}
  template:
    metadata: {labels: {app.kubernetes.io/component: model-server, app.kubernetes.io/name: %[1]s}}
    spec:
      runtimeClassName: nvidia
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      containers:
      - {name: engine, image: "%[2]s", args: [%[4]s], ports: [{name: http, containerPort: 8000}], resources: {limits: {nvidia.com/gpu: %[3]s}}}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: models}
spec: {selector: {app.kubernetes.io/name: %[1]s}, ports: [{name: http, port: 8000, targetPort: http}]}
---
`, name, image, gpus, args)
}

// TestModels: engines load, answer, and fail as the real ones, for our own client and for OpenAI's.
func TestModels(t *testing.T) { labtest.OnEither(t, models) }

func models(t *testing.T, kind labctl.Guests) {
	f := factory(t, kind)
	p, err := f.Form(t.Context(), guest.PlaneConfig{Version: "v1.36.5+k3s1", TLSSANs: []string{vip}})
	require.NoError(t, err)
	u := newUser(t, p)
	w := newWorker("wk1", "10.0.0.21", 3)
	w.Run = func(_ context.Context, c guest.Container) (int, string, string) {
		return 0, strings.Repeat("40960\n", c.GPUs), ""
	}
	require.NoError(t, p.Join(t.Context(), w.Node))
	const vllm, llamaCpp = "vllm/vllm-openai:v0.11.0", "ghcr.io/ggml-org/llama.cpp:server-cuda"
	require.NoError(t, p.Apply(t.Context(), []byte(gpuManifest+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: models}\n---\n"+
		modelManifest("qwen", vllm, "1", `"--model=Qwen/Qwen2.5-7B-Instruct", "--served-model-name=qwen", "--max-model-len=4096"`)+
		modelManifest("gemma", llamaCpp, "1", `"-hf", "ggml-org/gemma-3-4b-it-GGUF:Q4_K_M", "--alias", "gemma", "-c", "4096"`)+
		modelManifest("big", vllm, "1", `"--model=Qwen/Qwen2.5-72B-Instruct", "--served-model-name=big"`))))
	seen := map[modelserver.State]bool{}
	states := func(want ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			all, err := modelserver.List(ctx, u.Client)
			if err != nil {
				return err
			}
			var have []string
			for _, s := range all {
				seen[s.State] = true
				have = append(have, s.Name+" "+string(s.State))
			}
			return is("models", strings.Join(want, ", "), strings.Join(have, ", "))
		}
	}
	eventually(t, 40*time.Second, "two models are ready, and one does not fit", states("big crashed", "gemma ready", "qwen ready"))
	assert.True(t, seen[modelserver.Loading])
	require.NoError(t, p.Apply(t.Context(), []byte(modelManifest("queued", vllm, "1", `"--model=x/y", "--served-model-name=queued"`))))
	var all []modelserver.Server
	eventually(t, 20*time.Second, "there is no fourth card", func(ctx context.Context) (err error) {
		if err := states("big crashed", "gemma ready", "queued pending", "qwen ready")(ctx); err != nil {
			return err
		}
		all, err = modelserver.List(ctx, u.Client)
		if err == nil && !strings.Contains(all[2].Detail, "Insufficient") {
			err = errors.New(all[2].Detail)
		}
		return err
	})
	for i, want := range []string{"CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 40.00 GiB", "", "Insufficient nvidia.com/gpu", ""} {
		a, err := all[i].Verify(t.Context(), u.Client, nil)
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		assert.Contains(t, a.Text, "This is the lab")
		assert.Equal(t, len(strings.Fields(a.Text)), a.Tokens)
		assert.InDelta(t, 100, a.Rate, 60)
		assert.Equal(t, []string{"wk1"}, all[i].Nodes)
	}
	t.Run("OpenAI's client", func(t *testing.T) { foreignClient(t, p) })
}

// foreignClient is OpenAI's own library, by way of the API server.
func foreignClient(t *testing.T, p guest.Plane) {
	config, err := clientcmd.RESTConfigFromKubeConfig(p.Kubeconfig("https://" + vip + ":6443"))
	require.NoError(t, err)
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) }
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	for _, name := range []string{"qwen", "gemma"} {
		c := openai.NewClient(option.WithBaseURL("https://"+vip+":6443/api/v1/namespaces/models/services/"+name+":http/proxy/v1/"),
			option.WithHTTPClient(&http.Client{Transport: transport}), option.WithAPIKey("none"), option.WithMaxRetries(0))
		list, err := c.Models.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list.Data, 1)
		assert.Equal(t, name, list.Data[0].ID)
		ask := openai.ChatCompletionNewParams{Model: name, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello?")}}
		whole, err := c.Chat.Completions.New(t.Context(), ask)
		require.NoError(t, err)
		text := whole.Choices[0].Message.Content
		assert.Contains(t, text, "This is the lab: no model was loaded")
		assert.EqualValues(t, len(strings.Fields(text)), whole.Usage.CompletionTokens)

		ask.StreamOptions.IncludeUsage = param.NewOpt(true)
		stream := c.Chat.Completions.NewStreaming(t.Context(), ask)
		var sum openai.ChatCompletionAccumulator
		for stream.Next() {
			require.True(t, sum.AddChunk(stream.Current()))
		}
		require.NoError(t, stream.Err())
		assert.Equal(t, text, sum.Choices[0].Message.Content)
		assert.Equal(t, "stop", sum.Choices[0].FinishReason)
		assert.Equal(t, whole.Usage.CompletionTokens, sum.Usage.CompletionTokens)
	}
	c := openai.NewClient(option.WithBaseURL("https://"+vip+":6443/api/v1/namespaces/models/services/qwen:http/proxy/v1/"),
		option.WithHTTPClient(&http.Client{Transport: transport}), option.WithAPIKey("none"), option.WithMaxRetries(0))
	_, err = c.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "another", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello?")}})
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusNotFound, refused.StatusCode)
	assert.Equal(t, "The model `another` does not exist.", refused.Message)
	assert.Equal(t, "NotFoundError", refused.Type)
}
