package api

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// apiRoot is the path of the API on the host.
const apiRoot = "/api2/json"

// maxAnswer is the largest accepted answer, in bytes. A host with a thousand VMs sends about 500
// KiB at once.
const maxAnswer = 32 << 20

// statusErrors turns every answer of status 300 and above into an [*Error] with Proxmox's message.
// go-proxmox passes errors of its transport through, but treats 404, 502, 595 and 596 as success
// and drops the messages of 403 and 500.
type statusErrors struct {
	next    http.RoundTripper
	token   string
	expects *grantHints
}

func (t statusErrors) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	if err != nil {
		if ctxErr := req.Context().Err(); ctxErr != nil {
			return nil, ctxErr
		}
		return nil, &Error{Method: req.Method, Path: apiPath(req), Message: networkText(err), Token: t.token, Cause: err}
	}
	if res.StatusCode < http.StatusMultipleChoices {
		res.Body = limit.Body(res.Body, res.ContentLength, maxAnswer)
		res.Body = answerBody{res.Body, &Error{Status: res.StatusCode, Method: req.Method, Path: apiPath(req), Token: t.token}}
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode < http.StatusBadRequest {
		return nil, &Error{Status: res.StatusCode, Method: req.Method, Path: apiPath(req), Token: t.token, Message: redirectText(res)}
	}
	e := &Error{Status: res.StatusCode, Method: req.Method, Path: apiPath(req), Token: t.token}
	var body struct {
		Message string                     `json:"message"`
		Errors  map[string]json.RawMessage `json:"errors"`
	}
	// Before pve-http-server 5.2.0, and always for 401 and 59x, the message is only in the status
	// line.
	raw, readErr := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if readErr != nil && req.Context().Err() != nil {
		return nil, req.Context().Err()
	}
	if json.Unmarshal(raw, &body) == nil {
		e.Message = strings.TrimSpace(body.Message)
		for k, v := range body.Errors {
			if e.Errors == nil {
				e.Errors = map[string]string{}
			}
			e.Errors[k] = wire.Unquote(v)
		}
	}
	if e.Message == "" {
		_, reason, _ := strings.Cut(res.Status, " ")
		e.Message = strings.TrimSpace(reason)
	}
	path, privileges, _, _ := e.lackedPrivileges()
	e.Cure = t.expects.cure(path, privileges)
	return nil, e
}

// answerBody is the body of a successful answer, with a limit on its size.
type answerBody struct {
	io.ReadCloser
	fail *Error
}

func (b answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if large, ok := errors.AsType[*limit.Error](err); ok {
		b.fail.Message, b.fail.Cause = large.Error()+": is this Proxmox VE's API?", large
		return n, b.fail
	}
	return n, err
}

// apiPath returns the request's path as Proxmox's documentation writes it. It omits the query,
// because a parameter may be long.
func apiPath(req *http.Request) string { return strings.TrimPrefix(req.URL.Path, apiRoot) }

// redirectText says where a redirect leads. Proxmox's API sends no redirects, and a client that
// followed one would send the token to its target.
func redirectText(res *http.Response) string {
	to, err := res.Location()
	if err != nil {
		return "it answers with a redirect, which Proxmox VE does not: is this its API?"
	}
	return "it answers with a redirect to " + to.Scheme + "://" + to.Host + ", which is not followed because it would receive the token; if that is the host, write it as the endpoint"
}

// networkText says briefly why there was no answer.
func networkText(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before an answer arrived"
	case errors.As(err, &op):
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// retryGets retries a GET if there was no answer or Proxmox's proxy could not reach the daemon. It
// never sends other requests twice: a lost answer to a POST says nothing about the work.
type retryGets struct {
	next http.RoundTripper
}

// getTries bounds how often a GET is sent; the waits between grow from firstGetWait.
const (
	getTries     = 4
	firstGetWait = 250 * time.Millisecond
)

func (t retryGets) RoundTrip(req *http.Request) (*http.Response, error) {
	pause := firstGetWait
	for try := 1; ; try++ {
		res, err := t.next.RoundTrip(req)
		if err == nil && req.Method == http.MethodGet {
			res, err = readWhole(req, res)
		}
		if err == nil || req.Method != http.MethodGet || try == getTries || !isTemporary(err) {
			return res, err
		}
		if converge.Pause(req.Context(), pause) != nil {
			return nil, req.Context().Err()
		}
		pause *= 2
	}
}

// readWhole reads an answer to its end, so that one whose connection was cut in between counts as none.
func readWhole(req *http.Request, res *http.Response) (*http.Response, error) {
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	switch large := (*limit.Error)(nil); {
	case err == nil || errors.As(err, &large):
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text), failing{cmp.Or(err, io.EOF)}))
		return res, nil
	case req.Context().Err() != nil:
		return nil, req.Context().Err()
	}
	return nil, &Error{Method: req.Method, Path: apiPath(req), Message: networkText(err), Cause: err}
}

// failing is the end of a body.
type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// isTemporary reports whether the failure is temporary.
func isTemporary(err error) bool {
	var e *Error
	if !errors.As(err, &e) || !e.Transient() {
		return false
	}
	if e.Status != 0 {
		return e.class() == Unknown || e.Status == 595
	}
	var timeout net.Error
	return !errors.As(err, &timeout) || !timeout.Timeout() // the wait was long enough
}

// distrusted reports whether a host has no address, or is not the expected one.
func distrusted(err error) bool {
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	return errors.As(err, &cert) || errors.As(err, &dns) || isFingerprint(err)
}

// workerLimit limits the requests that may block a worker of a host's pvedaemon to one at a time. A host
// has three workers, for all its users. A request to the agent of a booting guest blocks its worker
// for 3 s, and one that waits for a lock for up to 10 s. When all three are blocked, the web
// interface no longer answers anyone.
type workerLimit struct {
	next http.RoundTripper

	mu    sync.Mutex
	hosts map[string]chan struct{} // holds one token while a request is running
}

func (t *workerLimit) RoundTrip(req *http.Request) (*http.Response, error) {
	host, blocks := mayBlock(req.Method, apiPath(req))
	if !blocks {
		return t.next.RoundTrip(req)
	}
	turn := t.slot(host)
	select {
	case turn <- struct{}{}:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	asked := time.Now()
	res, err := t.next.RoundTrip(req)
	if left := agentBlocks - time.Since(asked); left > 0 && req.Context().Err() != nil && strings.Contains(req.URL.Path, "/agent/") {
		time.AfterFunc(left, func() { <-turn }) // its worker is still waiting
	} else {
		<-turn
	}
	return res, err
}

// agentBlocks is how long a call to an agent that does not answer holds its worker, also after the
// client has gone (qga_check_running, PVE/QemuServer/Agent.pm).
const agentBlocks = 3 * time.Second

func (t *workerLimit) slot(host string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hosts == nil {
		t.hosts = map[string]chan struct{}{}
	}
	if t.hosts[host] == nil {
		t.hosts[host] = make(chan struct{}, 1)
	}
	return t.hosts[host]
}

// mayBlock reports whether a request waits for a guest or a lock on a host: all requests to a
// guest's agent, and all that change something there. An upload does not count: it goes through
// pveproxy, and takes longer the larger the file is.
func mayBlock(method, path string) (host string, blocks bool) {
	below, onHost := strings.CutPrefix(path, "/nodes/")
	if !onHost || strings.HasSuffix(path, "/upload") {
		return "", false
	}
	host, rest, _ := strings.Cut(below, "/")
	return host, method != http.MethodGet || strings.Contains(rest, "/agent/")
}
