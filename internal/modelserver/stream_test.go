package modelserver

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dataOf are the data of a stream's events.
func dataOf(stream string) (out []string, err error) {
	err = events(strings.NewReader(stream), func(data []byte) error {
		out = append(out, string(data))
		return nil
	})
	return out, err
}

func TestEvents(t *testing.T) {
	for stream, want := range map[string][]string{
		"":                                      nil,
		"data: a\n\ndata:b\n\n":                 {"a", "b"},
		"data: a\r\n\r\n":                       {"a"},
		": keep alive\n\ndata: a\n\n":           {"a"},
		"event: x\nid: 1\ndata: a\ndata: b\n\n": {"a\nb"},
		"data\n\n":                              {""},
		"data: cut off":                         nil,
		"data: cut off\n":                       nil,
		"data:  a \n\n":                         {" a "},
		"\n\n\n":                                nil,
	} {
		have, err := dataOf(stream)
		require.NoError(t, err)
		assert.Equal(t, want, have, "%q", stream)
	}
	_, err := dataOf("data: " + strings.Repeat("x", maxEvent) + "\n\n")
	require.ErrorContains(t, err, "token too long")
	stop := errors.New("stop")
	require.ErrorIs(t, events(strings.NewReader("data: a\n\ndata: b\n\n"), func([]byte) error { return stop }), stop)
	require.ErrorIs(t, events(iotest.ErrReader(stop), func([]byte) error { return nil }), stop)
}

// FuzzEvents: what is written as events is read as it was written, and nothing makes it panic.
func FuzzEvents(f *testing.F) {
	f.Add("a", "b")
	f.Add("{\"choices\":[]}", ": x\n\ndata: y")
	f.Fuzz(func(t *testing.T, data, rest string) {
		_, _ = dataOf(rest)
		_, _ = readAnswer(strings.NewReader(rest), time.Now())
		if strings.ContainsAny(data, "\r\n") {
			return
		}
		have, err := dataOf("data: " + data + "\n\n" + "data: " + data + "\n\n")
		if len(data) >= maxEvent-10 {
			return
		}
		require.NoError(t, err)
		assert.Equal(t, []string{data, data}, have)
	})
}

// FuzzAnswer: the text of an answer is its pieces, however they come.
func FuzzAnswer(f *testing.F) {
	f.Add("Hello, ", "world", 7)
	f.Fuzz(func(t *testing.T, a, b string, tokens int) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		var stream strings.Builder
		for _, piece := range []string{a, "", b} {
			text, err := json.Marshal(piece)
			require.NoError(t, err)
			stream.WriteString("data: {\"choices\":[{\"delta\":{\"reasoning_content\":null,\"content\":" + string(text) + "}}]}\n\n")
		}
		usage, err := json.Marshal(map[string]any{"choices": []any{}, "usage": map[string]any{"completion_tokens": tokens}})
		require.NoError(t, err)
		have, err := readAnswer(iotest.OneByteReader(strings.NewReader(stream.String()+"data: "+string(usage)+"\n\ndata: [DONE]\n\n")), time.Now())
		if a+b == "" {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		assert.Equal(t, a+b, have.Text)
		assert.Equal(t, tokens, have.Tokens)
	})
}

// Thoughts count as text, under both of their names.
func TestThoughts(t *testing.T) {
	a, err := readAnswer(strings.NewReader(`data: {"choices":[{"delta":{"reasoning_content":"I "}}]}`+"\n\n"+`data: {"choices":[{"delta":{"reasoning":"think"}}]}`+"\n\ndata: [DONE]\n\n"), time.Now())
	require.NoError(t, err)
	assert.Equal(t, "I think", a.Text)
	assert.Zero(t, a.Rate)
}

func TestDiagnose(t *testing.T) {
	for log, want := range map[string]string{
		"ValueError: To serve at least one request with the models's max seq len (32768), (1.75 GiB KV cache is needed, which is larger than the available KV cache memory (0.65 GiB). Based on the available memory, the estimated maximum model length is 12160. Try increasing `gpu_memory_utilization`": "write context: 12160 or less, cache: fp8, or more gpus",
		"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.":                                                                                                                                                                       "write a smaller context, cache: fp8, or more gpus",
		"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 38146.97 MiB on device 0: cudaMalloc failed: out of memory\nmain: exiting":                                                                                                                                                                  "take a smaller quantization",
		"huggingface_hub.errors.GatedRepoError: 401 Client Error.":                                              "accept the model's licence on its page, and write a token that may read it",
		"RepositoryNotFoundError: 404 Client Error":                                                             "compare source, revision and file with the model's page",
		"OSError: [Errno 28] No space left on device":                                                           "the volume for the weights is full",
		"models.qwen: https://u has the digest " + strings.Repeat("a", 64) + ", not " + strings.Repeat("b", 64): "bbb: if you want the file with the first digest, write it as sha256; else write the revision that has the second",
		"curl: (22) The requested URL returned error: 401":                                                      "accept the model's licence on its page",
		"curl: (22) The requested URL returned error: 404":                                                      "compare source, revision and file",
		"curl: (23) Failure writing output to destination":                                                      "the volume for the weights is full",
		"curl: (6) Could not resolve host: huggingface.co":                                                      "the node cannot reach the server",
		"urllib3: Max retries exceeded with url":                                                                "the node cannot reach the server that has the weights",
	} {
		why, known := diagnose("some line\n" + log + "\nlast line\n")
		assert.True(t, known, log)
		assert.Contains(t, why, want)
		assert.Contains(t, why, clean(strings.Split(log, "\n")[0])[:20])
	}
	why, known := diagnose("a\n(APIServer pid=1) RuntimeError: something new\nb\n")
	assert.False(t, known)
	assert.Equal(t, "RuntimeError: something new", why)
	why, _ = diagnose("")
	assert.Empty(t, why)
}

// TestRealEngine: what llama-server 0.5.0 wrote and answered on an H200 is read.
func TestRealEngine(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		return string(text)
	}
	a, err := readAnswer(strings.NewReader(read("llama-stream.txt")), time.Now())
	require.NoError(t, err)
	assert.Equal(t, Answer{Text: "GGG", Tokens: 128}, Answer{Text: a.Text, Tokens: a.Tokens})

	why, known := diagnose(read("llama-memory.log"))
	assert.True(t, known)
	assert.Equal(t, "alloc_tensor_range: failed to allocate CUDA0 buffer of size 206158430208: the model needs more memory than its GPUs have: "+
		"take a smaller quantization, write a smaller context, or more gpus", why)
	why, known = diagnose(read("llama-missing.log"))
	assert.False(t, known)
	assert.Equal(t, "gguf_init_from_file: failed to open GGUF file '/weights/none.gguf' (No such file or directory)", why)

	assert.Equal(t, "Invalid API Key", messageOf([]byte(`{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`)))
	assert.Equal(t, "request (9008 tokens) exceeds the available context size (8192 tokens), try increasing it", messageOf([]byte(
		`{"error":{"code":400,"message":"request (9008 tokens) exceeds the available context size (8192 tokens), try increasing it",`+
			`"type":"exceed_context_size_error","n_prompt_tokens":9008,"n_ctx":8192}}`)))
}
