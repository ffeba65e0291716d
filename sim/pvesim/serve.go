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
	"time"
)

// prefix is where the API lives.
const prefix = "/api2/json"

// Handler serves the API below /api2/json. Where the connection is HTTP/1 it
// writes status lines as Proxmox does, with the error in the reason phrase.
func (s *Sim) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := s.state.answer(r)
		if a.drop {
			panic(http.ErrAbortHandler) // net/http's way to end a connection without an answer
		}
		if a.status == http.StatusOK && walksIn(r) {
			s.state.enter(w, r)
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
	server := &http.Server{Handler: s.Handler(), Protocols: protocols, ReadHeaderTimeout: proxyTimeout,
		ErrorLog: slog.NewLogLogger(s.state.opts.Log.Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("pvesim: %w", err)
	}
	return nil
}

const contentType = "application/json;charset=UTF-8"

// writeRaw writes an answer whose reason net/http cannot.
func writeRaw(w http.ResponseWriter, a answer) bool {
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

type transport struct{ s *state }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	sent, err := received(r)
	if err != nil {
		return nil, err
	}
	got := make(chan answer, 1)
	if !t.s.serving(func() { got <- t.s.answer(sent) }) {
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

// received is the request as the server has it: the body has left the client.
func received(r *http.Request) (*http.Request, error) {
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
func (s *state) serving(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

func (a answer) response(r *http.Request) *http.Response {
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

// answer serves one request from its first line to its last.
func (s *state) answer(r *http.Request) answer {
	c := &call{s: s, method: r.Method}
	ours := false
	c.path, ours = strings.CutPrefix(r.URL.Path, prefix)
	c.p = params{}
	var readErr error
	if isUpload(r) {
		c.upload, readErr = readUpload(r, c.p)
	} else {
		var p params
		if p, readErr = readParams(r); p != nil {
			c.p = p
		}
	}
	var rec *Request
	defer func() { // when the lock is free again
		if rec != nil && s.opts.Heard != nil {
			s.opts.Heard(*rec)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return answer{drop: true}
	}
	rec = s.record(c)
	a := s.conclude(c, rec, func() (any, error) {
		if !ours {
			return nil, &apiError{status: http.StatusNotFound, text: "no such file '" + r.URL.Path + "'", bare: true}
		}
		return s.serve(c, r, readErr)
	})
	rec.Status, rec.User, rec.Route = a.status, c.who.id, c.route
	if a.status >= http.StatusBadRequest {
		rec.Message = a.reason
	}
	s.opts.Log.Debug("request", "method", c.method, "path", c.path, "status", a.status, "reason", a.reason)
	return a
}

func (s *state) record(c *call) *Request {
	rec := &Request{Time: time.Now(), Method: c.method, Path: c.path, Params: c.p.recorded(c.path)}
	rec.Mutating = c.method != http.MethodGet && c.path != "/access/ticket"
	if c.upload != nil {
		rec.Params["filename"] = []string{c.upload.filename}
	}
	c.fault = s.faultFor(*rec)
	rec.Faulted = c.fault != nil
	if s.opts.Lean && len(s.requests) >= leanRequests {
		s.requests = slices.Clone(s.requests[leanRequests/2:])
	}
	s.requests = append(s.requests, rec)
	return rec
}

// conclude does the work of a request under the fault that is on it.
func (s *state) conclude(c *call, rec *Request, do func() (any, error)) answer {
	if c.fault == nil {
		return s.answerFor(do())
	}
	r := c.fault.rule
	if r.Delay > 0 {
		if r.Delay >= proxyTimeout {
			s.spawn(func() {
				if s.wait(r.Delay, nil) == nil {
					_, _ = do()
				}
			})
			_ = s.wait(proxyTimeout, nil)
			return answer{status: 596, reason: "Connection timed out"}
		}
		if s.wait(r.Delay, nil) != nil {
			return answer{drop: true}
		}
	}
	instead := r.Drop || r.Status != 0 || r.Data != nil
	if !instead {
		return s.answerFor(do())
	}
	if r.After {
		_, _ = do()
	}
	return r.answer(s)
}

func (r Rule) answer(s *state) answer {
	switch {
	case r.Drop:
		return answer{drop: true}
	case r.Data != nil:
		return answer{status: http.StatusOK, reason: "OK", body: []byte(`{"data":` + string(r.Data) + `}`)}
	}
	e := &apiError{status: r.Status, text: r.Message, params: r.Errors, bare: r.Status > 501}
	if e.text == "" {
		e.text = reasonFor(r.Status)
	}
	a := s.answerFor(nil, e)
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
func (s *state) serve(c *call, r *http.Request, readErr error) (any, error) {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		return nil, &apiError{status: http.StatusNotImplemented, text: "method '" + r.Method + "' not available", bare: true}
	}
	if !withoutTicket(r.Method, c.path) {
		who, err := s.authenticate(r)
		if err != nil {
			if s.wait(unauthorizedDelay, nil) != nil {
				return nil, errDropped
			}
			return nil, err
		}
		c.who = who
	} else {
		c.withToken = authValue(r.Header.Get("Authorization"), "PVEAPIToken") != "" // whether it is right or not
	}
	if readErr != nil {
		return nil, readErr
	}
	data, err := s.attempt(c.method+" "+c.path, func() (any, error) { return s.dispatch(c) })
	if errors.Is(err, errClosed) {
		err = errDropped
	}
	return data, err
}
