package pvesim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/consoles"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// prefix is where the API lives.
const prefix = "/api2/json"

// Handler serves the API below /api2/json. Where the connection is HTTP/1 it
// writes status lines as Proxmox does, with the error in the reason phrase.
func (s *Sim) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answerTo(s.state, r)
		if a.drop {
			panic(http.ErrAbortHandler) // net/http's way to end a connection without an answer
		}
		if a.status == http.StatusOK && consoles.WalksIn(r) {
			consoles.Enter(s.state, w, r)
			return
		}
		if a.reason != http.StatusText(a.status) && writeRaw(w, a) {
			return
		}
		if a.body != nil && !a.plain {
			w.Header().Set("Content-Type", cmp.Or(a.kind, contentType))
		}
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body)
	})
}

// Serve serves the API on a listener, which is the caller's to wrap in TLS, until
// ctx ends. It speaks HTTP/1.1 alone, as pveproxy does: later versions have no
// reason phrases.
func (s *Sim) Serve(ctx context.Context, l net.Listener) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	server := &http.Server{Handler: s.Handler(), Protocols: protocols, ReadHeaderTimeout: world.ProxyTimeout,
		ErrorLog: slog.NewLogLogger(s.state.Options.Log.Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("pvesim: %w", err)
	}
	return nil
}

const contentType = "application/json;charset=UTF-8"

// writeRaw writes an answer whose reason net/http cannot.
func writeRaw(w http.ResponseWriter, a outcome) bool {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return false
	}
	conn, buf, err := hijacker.Hijack()
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(buf, "HTTP/1.1 %03d %s\r\nConnection: close\r\nServer: pve-api-daemon/3.0\r\n", a.status, a.reason)
	if a.body != nil && !a.plain {
		fmt.Fprintf(buf, "Content-Type: %s\r\n", contentType)
	}
	fmt.Fprintf(buf, "Content-Length: %d\r\n\r\n", len(a.body))
	_, _ = buf.Write(a.body)
	_ = buf.Flush()
	return true
}

// Client returns a client that calls the handler in process, whatever host the
// URL names. A request whose context ends returns at once; what it asked for is
// done all the same, as on a real server.
func (s *Sim) Client() *http.Client { return &http.Client{Transport: transport{s.state}} }

type transport struct{ s *world.State }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	sent, err := serverRequest(r)
	if err != nil {
		return nil, err
	}
	got := make(chan outcome, 1)
	if !serving(t.s, func() { got <- answerTo(t.s, sent) }) {
		return nil, io.EOF
	}
	select {
	case a := <-got:
		if a.drop {
			return nil, io.EOF
		}
		return a.response(r), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// serverRequest is the request as the server has it: the body has left the client.
func serverRequest(r *http.Request) (*http.Request, error) {
	sent := r.Clone(r.Context())
	sent.RemoteAddr = "192.0.2.1:40000"
	if r.Body == nil {
		return sent, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	sent.Body = io.NopCloser(bytes.NewReader(body))
	return sent, nil
}

// serving runs f in a goroutine that Close waits for.
func serving(s *world.State, f func()) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Closed {
		return false
	}
	s.Goroutines.Go(f)
	return true
}

func (a outcome) response(r *http.Request) *http.Response {
	header := http.Header{"Server": {"pve-api-daemon/3.0"}}
	if a.body != nil && !a.plain {
		header.Set("Content-Type", cmp.Or(a.kind, contentType))
	}
	return &http.Response{
		Status: fmt.Sprintf("%03d %s", a.status, a.reason), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}
}

// answerTo serves one request from its first line to its last.
func answerTo(s *world.State, r *http.Request) outcome {
	c := &world.Call{State: s, Method: r.Method}
	ours := false
	c.Path, ours = strings.CutPrefix(r.URL.Path, prefix)
	c.Params = request.Params{}
	var readErr error
	if request.IsUpload(r) {
		c.Upload, readErr = request.ReadUpload(r, c.Params)
	} else {
		var p request.Params
		if p, readErr = request.ReadParams(r); p != nil {
			c.Params = p
		}
	}
	var rec *Request
	defer func() { // when the lock is free again
		if rec != nil && s.Options.Heard != nil {
			s.Options.Heard(*rec)
		}
	}()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Closed {
		return outcome{drop: true}
	}
	rec = record(s, c)
	a := conclude(s, c, rec, func() (any, error) {
		if !ours {
			return nil, &answer.Error{Status: http.StatusNotFound, Text: "no such file '" + r.URL.Path + "'", Bare: true}
		}
		return serve(s, c, r, readErr)
	})
	rec.Status, rec.User, rec.Route = a.status, c.Who.ID, c.Route
	if a.status >= http.StatusBadRequest {
		rec.Message = a.reason
	}
	s.Options.Log.Debug("request", "method", c.Method, "path", c.Path, "status", a.status, "reason", a.reason)
	return a
}

func record(s *world.State, c *world.Call) *Request {
	rec := &Request{Method: c.Method, Path: c.Path, Params: c.Params.Redact(c.Path)}
	rec.Mutating = c.Method != http.MethodGet && c.Path != "/access/ticket"
	if c.Upload != nil {
		rec.Params["filename"] = []string{c.Upload.Filename}
	}
	c.Fault = s.FaultFor(*rec)
	if s.Options.Lean && len(s.Requests) >= world.LeanRequests {
		s.Requests = slices.Clone(s.Requests[world.LeanRequests/2:])
	}
	s.Requests = append(s.Requests, rec)
	return rec
}

// conclude does the work of a request under the fault that is on it.
func conclude(s *world.State, c *world.Call, rec *Request, do func() (any, error)) outcome {
	if c.Fault == nil {
		data, err := do()
		return answerFor(s, data, err)
	}
	r := c.Fault.Rule
	if r.Delay > 0 {
		if r.Delay >= world.ProxyTimeout {
			s.Spawn(func() {
				if s.Wait(r.Delay, nil) == nil {
					_, _ = do()
				}
			})
			_ = s.Wait(world.ProxyTimeout, nil)
			return outcome{status: 596, reason: "Connection timed out"}
		}
		if s.Wait(r.Delay, nil) != nil {
			return outcome{drop: true}
		}
	}
	instead := r.Drop || r.Status != 0 || r.Data != nil
	if !instead {
		data, err := do()
		return answerFor(s, data, err)
	}
	if r.After {
		_, _ = do()
	}
	return ruleAnswer(r, s)
}

func ruleAnswer(r Rule, s *world.State) outcome {
	switch {
	case r.Drop:
		return outcome{drop: true}
	case r.Data != nil:
		return outcome{status: http.StatusOK, reason: "OK", body: []byte(`{"data":` + string(r.Data) + `}`)}
	}
	e := &answer.Error{Status: r.Status, Text: r.Message, Params: r.Errors, Bare: r.Status > 501}
	if e.Text == "" {
		e.Text = reasonFor(r.Status)
	}
	a := answerFor(s, nil, e)
	if r.Body != nil {
		a.body = []byte(*r.Body)
	}
	return a
}

func reasonFor(status int) string {
	switch status {
	case 595:
		return "Connection refused"
	case 596:
		return "Connection timed out"
	}
	return http.StatusText(status)
}

// serve answers a request that nothing is wrong with.
func serve(s *world.State, c *world.Call, r *http.Request, readErr error) (any, error) {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		return nil, &answer.Error{Status: http.StatusNotImplemented, Text: "method '" + r.Method + "' not available", Bare: true}
	}
	if !access.WithoutTicket(r.Method, c.Path) {
		who, err := access.Authenticate(s, r)
		if err != nil {
			if s.Wait(access.UnauthorizedDelay, nil) != nil {
				return nil, answer.ErrDropped
			}
			return nil, err
		}
		c.Who = who
	} else {
		c.WithToken = access.AuthValue(r.Header.Get("Authorization"), "PVEAPIToken") != "" // whether it is right or not
	}
	if readErr != nil {
		return nil, readErr
	}
	data, err := s.Attempt(c.Method+" "+c.Path, func() (any, error) { return s.Dispatch(c) })
	if errors.Is(err, world.ErrClosed) {
		err = answer.ErrDropped
	}
	return data, err
}
