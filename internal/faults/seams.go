package faults

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/cps-gpu/homelab/remote"
)

// exitCode is the status of refused commands: one without a meaning of its own.
const exitCode = 77

// Runner runs commands with r, unless a fault prevents it.
func (f *Faults) Runner(r remote.Runner) remote.Runner {
	return remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
		switch f.take(cmd.String()) {
		case Lost:
			return ErrInjected
		case Unheard:
			cmd.Stdout = io.Discard
			_ = r.Run(ctx, cmd)
			return ErrInjected
		case Refused:
			return &remote.ExitError{Args: cmd.Args, Code: exitCode, Stderr: ErrInjected.Error() + "\n"}
		case CutShort:
			var out bytes.Buffer
			to := cmd.Stdout
			cmd.Stdout = &out
			err := r.Run(ctx, cmd)
			if to != nil {
				_, _ = to.Write(out.Bytes()[:out.Len()/2])
			}
			return err
		}
		return r.Run(ctx, cmd)
	})
}

// Answer is a refusing server's response: an HTTP status and a body, which should contain the
// text of [ErrInjected].
type Answer struct {
	Status int
	Type   string // of the body
	Body   string
}

// RoundTripper sends requests with next, unless a fault prevents it. Refused ones get the
// answer no.
func (f *Faults) RoundTripper(next http.RoundTripper, no Answer) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		kind := f.take(r.Method + " " + r.URL.RequestURI())
		if kind == Lost || kind == Refused {
			if r.Body != nil {
				_ = r.Body.Close()
			}
		}
		switch kind {
		case Lost:
			return nil, ErrInjected
		case Refused:
			return &http.Response{StatusCode: no.Status, Status: http.StatusText(no.Status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
				Header: http.Header{"Content-Type": {no.Type}}, Body: io.NopCloser(strings.NewReader(no.Body)), Request: r}, nil
		case Unheard:
			resp, err := next.RoundTrip(r)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			return nil, ErrInjected
		case CutShort:
			resp, err := next.RoundTrip(r)
			if err != nil {
				return nil, err
			}
			all, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				return nil, err
			}
			resp.Body = io.NopCloser(bytes.NewReader(all[:len(all)/2]))
			resp.ContentLength = -1
			resp.Header.Del("Content-Length")
			return resp, nil
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Dial is next with connections that a fault breaks permanently: each dial, read and write is
// a request. Only Lost and Outage are supported.
func (f *Faults) Dial(next func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if f.take("dial "+addr) != "" {
			return nil, ErrInjected
		}
		c, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, f: f}, nil
	}
}

type conn struct {
	net.Conn
	f      *Faults
	broken atomic.Bool
}

func (c *conn) breaks(what string) bool {
	if !c.broken.Load() && c.f.take(what) != "" {
		c.broken.Store(true)
		_ = c.Conn.Close()
	}
	return c.broken.Load()
}

func (c *conn) Read(p []byte) (int, error) {
	if c.breaks("read") {
		return 0, ErrInjected
	}
	n, err := c.Conn.Read(p)
	if err != nil && c.broken.Load() {
		err = ErrInjected
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	if c.breaks("write") {
		return 0, ErrInjected
	}
	n, err := c.Conn.Write(p)
	if err != nil && c.broken.Load() {
		err = ErrInjected
	}
	return n, err
}
