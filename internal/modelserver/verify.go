package modelserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
)

// question is what each model is asked, and at most this many tokens are its answer.
const (
	question  = "Explain in two sentences what a GPU does."
	maxTokens = 128
)

// patience is how long an answer may take. A first request may compile kernels.
const patience = 3 * time.Minute

// maxAnswer is the most that is read of an answer, in bytes.
const maxAnswer = 4 << 20

// Verify asks a server for one chat completion, as a client would: by way of the gateway if there is one. Its
// error says what the server lacks, and what to do.
func (s Server) Verify(ctx context.Context, k *kube.Client, by *Gateway) (Answer, error) {
	if s.State != Ready {
		return Answer{}, s.unready()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
	defer cancel()
	ask := func(path string, body any) (*http.Response, error) { return s.ask(ctx, k, path, body) }
	if by != nil {
		ask = func(path string, body any) (*http.Response, error) { return by.ask(ctx, path, nil, body) }
	}
	if err := s.serves(ask, by != nil); err != nil {
		return Answer{}, err
	}
	asked := time.Now()
	resp, err := ask("/v1/chat/completions", map[string]any{
		"model": s.Name, "messages": []any{map[string]any{"role": "user", "content": question}},
		"max_tokens": maxTokens, "temperature": 0, "stream": true, "stream_options": map[string]any{"include_usage": true},
	})
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	a, err := readAnswer(io.LimitReader(resp.Body, maxAnswer), asked)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return a, err
}

// unready says why a server that is not ready answers nothing.
func (s Server) unready() error {
	switch s.State {
	case Off:
		return errors.New("it is off: replicas is 0")
	case Asleep:
		return fmt.Errorf("it sleeps %s: kubectl -n %s scale deployment %s --replicas=1 wakes it until its next end", s.Detail, printable.Word(Namespace), printable.Word(s.Name))
	case Loading:
		return fmt.Errorf("it is still loading, and wrote last: %s", s.Detail)
	}
	return fmt.Errorf("it is %s: %s", s.State, s.Detail)
}

// serves checks that the engine, or the gateway, knows the model by its name.
func (s Server) serves(ask func(path string, body any) (*http.Response, error), gateway bool) error {
	resp, err := ask("/v1/models", nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&list); err != nil {
		return fmt.Errorf("/v1/models: %w", err)
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	if !slices.Contains(names, s.Name) && gateway {
		return fmt.Errorf("the gateway serves %q, and not %s: homelab cluster:up brings its list up to date", strings.Join(names, ", "), s.Name)
	}
	if !slices.Contains(names, s.Name) {
		return fmt.Errorf("it serves %q, and not %s: homelab cluster:up starts it with its name", strings.Join(names, ", "), s.Name)
	}
	return nil
}

// ask sends a request to the engine. An answer other than 200 is an EngineError.
func (s Server) ask(ctx context.Context, k *kube.Client, path string, body any) (*http.Response, error) {
	resp, err := k.AskService(ctx, kube.ServiceRequest{Namespace: Namespace, Service: s.Name, Port: PortName, Path: path, Body: body})
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return nil, &EngineError{Status: resp.StatusCode, Message: messageOf(said)}
}
