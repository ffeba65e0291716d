package modelengine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// pace is the time between two tokens of an answer.
const pace = 10 * time.Millisecond

// Handler is the engine's HTTP server. While ready returns false, it answers as one that is still loading, or
// whose engine has died.
func (e Engine) Handler(ready func() bool) http.Handler {
	s := server{e}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		if e.Kind == LlamaCpp {
			s.fail(w, http.StatusNotFound, "File Not Found", "")
			return
		}
		writeJSON(w, http.StatusNotFound, map[string]any{"detail": "Not Found"}) // FastAPI's
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !s.admits(r):
			_, _ = io.Copy(io.Discard, r.Body) // the caller may have no buffer for what nobody reads
			if e.Kind == LlamaCpp {
				writeJSON(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"message": "Invalid API Key", "type": "authentication_error", "code": 401}})
				return
			}
			writeJSON(w, http.StatusUnauthorized, map[string]any{"error": "Unauthorized"})
		case ready() || e.Kind == LlamaCpp && r.URL.Path == "/v1/models":
			mux.ServeHTTP(w, r)
		case e.Kind == LlamaCpp:
			s.fail(w, http.StatusServiceUnavailable, "Loading model", "")
		default:
			w.WriteHeader(http.StatusServiceUnavailable) // without a body, as /health of a dead engine
		}
	})
}

type server struct{ Engine }

// admits reports whether a request has the key, or needs none: vLLM guards /v1 (entrypoints/openai/api_server.py),
// llama.cpp everything but a few paths (tools/server).
func (s server) admits(r *http.Request) bool {
	open := !strings.HasPrefix(r.URL.Path, "/v1")
	if s.Kind == LlamaCpp {
		open = slices.Contains([]string{"/", "/health", "/v1/health", "/models", "/v1/models", "/api/tags"}, r.URL.Path)
	}
	return s.Key == "" || open || r.Header.Get("Authorization") == "Bearer "+s.Key
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// fail answers with an error in the engine's shape.
func (s server) fail(w http.ResponseWriter, code int, message, param string) {
	e := map[string]any{"message": message, "code": code, "type": map[Kind]map[int]string{
		VLLM:     {400: "BadRequestError", 404: "NotFoundError"},
		LlamaCpp: {400: "invalid_request_error", 404: "not_found_error", 503: "unavailable_error"},
	}[s.Kind][code]}
	if s.Kind == VLLM {
		e["param"] = nil
		if param != "" {
			e["param"] = param
		}
	}
	writeJSON(w, code, map[string]any{"error": e})
}

func (s server) health(w http.ResponseWriter, _ *http.Request) {
	if s.Kind == LlamaCpp {
		writeJSON(w, http.StatusOK, map[string]any{"status": "ok"})
	}
}

func (s server) models(w http.ResponseWriter, _ *http.Request) {
	m := map[string]any{"id": s.Name, "object": "model", "created": time.Now().Unix(), "owned_by": "llamacpp"}
	if s.Kind == VLLM {
		m["owned_by"], m["root"], m["parent"], m["permission"] = "vllm", s.Source, nil, []any{}
		m["max_model_len"] = s.Context
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{m}})
}

// request is what the server reads of a request for a chat completion.
type request struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	} `json:"messages"`
	MaxTokens     *int `json:"max_tokens"`
	MaxCompletion *int `json:"max_completion_tokens"`
	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

func (s server) chat(w http.ResponseWriter, r *http.Request) {
	var q request
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<20))
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	switch {
	case err != nil:
		s.fail(w, http.StatusBadRequest, err.Error(), "")
	case s.Kind == VLLM && q.Model != "" && q.Model != s.Name: // llama.cpp's server has one model, and ignores the name
		s.fail(w, http.StatusNotFound, fmt.Sprintf("The model `%s` does not exist.", q.Model), "model")
	case len(q.Messages) == 0:
		s.fail(w, http.StatusBadRequest, "'messages' must not be empty", "messages")
	default:
		s.answer(r.Context(), w, q)
	}
}

// answer says that nothing was computed, in as many tokens as are allowed: here a word is one.
func (s server) answer(ctx context.Context, w http.ResponseWriter, q request) {
	asked := fmt.Sprint(q.Messages[len(q.Messages)-1].Content)
	prompt := 0
	for _, m := range q.Messages {
		prompt += len(strings.Fields(fmt.Sprint(m.Content))) + 4
	}
	words := strings.Fields(fmt.Sprintf("This is the lab: no model was loaded, and no GPU computed this answer. %s would answer here with %s. You wrote: %s", s.Kind, s.Source, asked))
	finish := "stop"
	for _, limit := range []*int{q.MaxTokens, q.MaxCompletion} {
		if limit != nil && *limit > 0 && len(words) > *limit {
			words, finish = words[:*limit], "length"
		}
	}
	if s.Context > 0 && prompt+len(words) > s.Context {
		s.fail(w, http.StatusBadRequest, fmt.Sprintf("This model's maximum context length is %d tokens. However, your request has %d input tokens. Please reduce the length of the input messages.", s.Context, prompt), "")
		return
	}
	about := map[string]any{"id": fmt.Sprintf("chatcmpl-lab-%d", time.Now().UnixNano()), "created": time.Now().Unix(), "model": s.Name}
	usage := map[string]any{"prompt_tokens": prompt, "completion_tokens": len(words), "total_tokens": prompt + len(words)}
	if q.Stream {
		s.stream(ctx, w, q, about, words, finish, usage)
		return
	}
	about["object"], about["usage"] = "chat.completion", usage
	about["choices"] = []any{map[string]any{
		"index": 0, "message": map[string]any{"role": "assistant", "content": strings.Join(words, " ")}, "finish_reason": finish, "logprobs": nil,
	}}
	writeJSON(w, http.StatusOK, about)
}

// stream sends one event for each token, and at the end the usage if it was asked for.
func (s server) stream(ctx context.Context, w http.ResponseWriter, q request, about map[string]any, words []string, finish string, usage any) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w)
	about["object"] = "chat.completion.chunk"
	send := func(choices []any) {
		about["choices"] = choices
		data, err := json.Marshal(about)
		if err == nil {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		}
		_ = flush.Flush()
	}
	choice := func(delta map[string]any, finish any) []any {
		return []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}}
	}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	send(choice(map[string]any{"role": "assistant", "content": ""}, nil))
	for i, word := range words {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if i > 0 {
			word = " " + word
		}
		send(choice(map[string]any{"content": word}, nil))
	}
	send(choice(map[string]any{}, finish))
	if q.StreamOptions.IncludeUsage {
		about["usage"] = usage
		send([]any{})
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
	_ = flush.Flush()
}
