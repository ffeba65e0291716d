package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Get sends a GET and decodes the "data" of the answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	if c == nil || c.lib == nil {
		return ErrNotDialled
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return plain(c.lib.Get(ctx, path, out))
}

// ErrNotDialled is the answer of a zero Client.
var ErrNotDialled = errors.New("proxmox: this Client was not made by Dial")

// Params are the parameters of a request. Values are strings, whole numbers or
// lists of strings: go-proxmox sends them as JSON, which Proxmox reads without
// loss. (Its query encoder writes 1e+06, so queries are made here.)
type Params map[string]any

// Call sends a request that changes something. out may be nil.
func (c *Client) Call(ctx context.Context, method, path string, p Params, out any) error {
	if c == nil {
		return ErrNotDialled
	}
	defer c.glances.invalidate(path)
	return c.send(ctx, method, path, p, out)
}

func (c *Client) send(ctx context.Context, method, path string, p Params, out any) error {
	if c.lib == nil {
		return ErrNotDialled
	}
	var raw json.RawMessage
	err := c.checkGuard(ctx)
	if err != nil {
		return err
	}
	switch method {
	case http.MethodPost:
		err = c.lib.Post(ctx, path, p, &raw)
	case http.MethodPut:
		err = c.lib.Put(ctx, path, p, &raw)
	case http.MethodDelete:
		query := url.Values{}
		for k, v := range p {
			query.Set(k, fmt.Sprint(v))
		}
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		err = c.lib.Delete(ctx, path, &raw)
	default:
		err = fmt.Errorf("method %s", method)
	}
	if err != nil {
		return plain(err)
	}
	if out == nil || len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("proxmox: %s %s: answer %.100q: %w", method, path, raw, err)
	}
	return nil
}

// Guard calls may before every request that changes something, until done is called. If may returns
// an error, the request is not sent. There is one guard at a time.
func (c *Client) Guard(may func(context.Context) error) (done func()) {
	c.guard.Store(&may)
	return func() { c.guard.CompareAndSwap(&may, nil) }
}

func (c *Client) checkGuard(ctx context.Context) error {
	if guard := c.guard.Load(); guard != nil && ctx.Value(guardless{}) == nil {
		return (*guard)(ctx)
	}
	return nil
}

// WithoutGuard returns a context for requests that a guard itself sends.
func WithoutGuard(ctx context.Context) context.Context {
	return context.WithValue(ctx, guardless{}, true)
}

type guardless struct{}

// startTask sends a request that starts a task and returns the task's id. An answer without an id is an
// error here; go-proxmox would return a nil task.
func (c *Client) startTask(ctx context.Context, method, path string, p Params) (UPID, error) {
	defer c.glances.invalidate(path)
	return c.launch(ctx, method, path, p)
}

func (c *Client) launch(ctx context.Context, method, path string, p Params) (UPID, error) {
	var text string
	err := c.send(ctx, method, path, p, &text)
	var upid UPID
	switch {
	case err != nil:
	case text == "":
		err = &Error{Method: method, Path: path, Message: "the answer names no task", Token: c.cfg.TokenID}
	default:
		upid, err = ParseUPID(text)
	}
	if said := new(Error); err != nil && (!errors.As(err, &said) || said.class() == Unknown) {
		if on, is := strings.CutPrefix(path, "/nodes/"); is { // the task may have started
			host, _, _ := strings.Cut(on, "/")
			c.earlier.lose(host)
		}
	}
	return upid, err
}

// Do sends a request that starts a task and waits until the task ends.
func (c *Client) Do(ctx context.Context, method, path string, p Params) error {
	_, _, err := c.DoExit(ctx, method, path, p)
	return err
}

// DoExit is Do that also returns the task, and its exit status: "OK", or "WARNINGS: 2".
func (c *Client) DoExit(ctx context.Context, method, path string, p Params) (task UPID, exit string, err error) {
	defer c.glances.invalidate(path) // not earlier: answers that others got meanwhile are from before the change
	if task, err = c.launch(ctx, method, path, p); err != nil {
		return task, "", err
	}
	exit, err = c.exit(ctx, task)
	return task, exit, err
}

// plain removes the wrapper that net/http adds to a transport's error.
func plain(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// NodePath returns the API path of an object of a host.
func NodePath(host string, parts ...string) string {
	var b strings.Builder
	b.WriteString("/nodes/")
	b.WriteString(url.PathEscape(host))
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// VMPath returns the API path of an object of a VM.
func VMPath(host string, vmid int, parts ...string) string {
	return NodePath(host, append([]string{"qemu", fmt.Sprint(vmid)}, parts...)...)
}
