// Package fakehost is a Proxmox VE host for tests that answers what a test says, over real TLS.
package fakehost

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/secret"
)

// The token that the host accepts.
const (
	TokenID     = "homelab@pve!cluster"
	TokenSecret = "3fe2a5a5-0000-4000-8000-c0ffee000001"
)

// Host is a server that gives the answers of a test, over real TLS.
type Host struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int
}

// Serve starts a host. Answers are by method and path below /api2/json.
func Serve(t *testing.T, answers map[string]http.HandlerFunc) *Host {
	h := &Host{calls: map[string]int{}}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Method + " " + r.URL.Path[len("/api2/json"):]
		h.mu.Lock()
		h.calls[key]++
		h.mu.Unlock()
		answer, ok := answers[key]
		switch {
		case ok:
			answer(w, r)
		case key == "GET /version":
			Data(map[string]any{"version": "9.2.11", "release": "9.2"})(w, r)
		default:
			http.Error(w, "", http.StatusNotImplemented)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// Count returns how many requests there were for a method and path.
func (h *Host) Count(key string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[key]
}

// Data answers with success.
func Data(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		_ = json.NewEncoder(w).Encode(map[string]any{"data": v})
	}
}

// Raw answers with a status line that Proxmox sends and net/http cannot write.
func Raw(status int, reason, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(buf, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, reason, len(body), body)
		_ = buf.Flush()
	}
}

// Drop closes the connection without an answer.
func Drop(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// Config returns the configuration of a client for the host.
func (h *Host) Config() api.Config {
	return api.Config{
		Endpoint: h.URL, TokenID: TokenID, TokenSecret: secret.New(TokenSecret), HTTPClient: h.Client(), Poll: 20 * time.Millisecond,
	}
}
