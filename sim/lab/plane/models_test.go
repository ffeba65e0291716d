package plane_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/sim/facts"
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
	w := newWorker("wk1", "10.0.0.21", 4)
	hub := newWeightsHub(t)
	w.Run = func(ctx context.Context, c guest.Container) (int, string, string) {
		if c.Args[0] == "flock" {
			return hub.fetch(ctx, c)
		}
		return 0, strings.Repeat("40960\n", c.GPUs), ""
	}
	require.NoError(t, p.Join(t.Context(), w.Node))
	const vllm = "vllm/vllm-openai:v0.11.0"
	require.NoError(t, p.Apply(t.Context(), []byte(gpuManifest+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: models}\n---\n"+
		modelManifest("qwen", vllm, "1", `"--model=Qwen/Qwen2.5-7B-Instruct", "--served-model-name=qwen", "--max-model-len=4096"`)+
		hub.manifest(t, "gemma", theirWeights)+hub.manifest(t, "other", "another file")+
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
	eventually(t, 40*time.Second, "two models are ready, one does not fit, and one has another file", states("big crashed", "gemma ready", "other crashed", "qwen ready"))
	assert.True(t, seen[modelserver.Loading])
	require.NoError(t, p.Apply(t.Context(), []byte(modelManifest("queued", vllm, "1", `"--model=x/y", "--served-model-name=queued"`))))
	var all []modelserver.Server
	eventually(t, 20*time.Second, "there is no fifth card", func(ctx context.Context) (err error) {
		if err := states("big crashed", "gemma ready", "other crashed", "queued pending", "qwen ready")(ctx); err != nil {
			return err
		}
		all, err = modelserver.List(ctx, u.Client)
		if err == nil && !strings.Contains(all[3].Detail, "Insufficient") {
			err = errors.New(all[3].Detail)
		}
		return err
	})
	for i, want := range []string{"CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 40.00 GiB", "", "it is crashed: models.other: " + hub.URL + "/ggml-org/gemma-3-4b-it-GGUF/resolve/main/gemma-3-4b-it-Q4_K_M.gguf has the digest ", "Insufficient nvidia.com/gpu", ""} {
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

// theirWeights is the content of each file of a weightsHub.
const theirWeights = "GGUF: what a model has learned"

// weightsHub is a mirror of Hugging Face, and the volumes of models that fetch from it.
type weightsHub struct {
	*httptest.Server
	folder string
}

func newWeightsHub(t *testing.T) weightsHub {
	for _, program := range []string{"curl", "flock", "bash"} {
		facts.Program(t, program, program)
	}
	h := weightsHub{httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(theirWeights)) })), t.TempDir()}
	t.Cleanup(h.Close)
	return h
}

// manifest is a model as homelab serves it, of the file that has a content.
func (h weightsHub) manifest(t *testing.T, name, content string) string {
	t.Helper()
	m := spec.Model{Name: name, Source: "ggml-org/gemma-3-4b-it-GGUF", File: "gemma-3-4b-it-Q4_K_M.gguf", SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(content))),
		Engine: spec.EngineLlamaCPP, Context: 4096, Parallel: 1, GPUs: 1, Replicas: 1, Mirror: h.URL}
	site := addon.Site{Nodes: []spec.Node{{Name: "wk1", GPUs: spec.GPURequest{Count: 4}}}}
	made, err := addon.Models{Models: []spec.Model{m}}.Make(&site)
	require.NoError(t, err)
	var text strings.Builder
	for _, o := range made.Before {
		switch o := o.(type) {
		case *appsv1.Deployment: // nobody provisions volumes here
			o.Spec.Template.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		case *corev1.Service:
		default:
			continue
		}
		data, err := yaml.Marshal(o)
		require.NoError(t, err)
		text.Write(append(data, "---\n"...))
	}
	return text.String()
}

// fetch runs the container on this machine, which has the programs of its image.
func (h weightsHub) fetch(ctx context.Context, c guest.Container) (code int, output, log string) {
	for i := range c.Args {
		c.Args[i] = strings.ReplaceAll(c.Args[i], "/weights/", h.folder+"/")
	}
	out, err := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...).CombinedOutput()
	if err != nil {
		return 1, string(out), ""
	}
	return 0, string(out), ""
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
