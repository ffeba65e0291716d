package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ofKubernetes are faults of requests to Kubernetes.
const ofKubernetes = "k8s"

// storm is what the API server does in the place of answering.
type storm struct {
	code  int           // it answers; 0: it resets the connection
	says  string        // in a Status, but for 429, which is plain text
	wait  string        // Retry-After
	lasts time.Duration // for all requests from the one that is hit; 0: that one alone
	delay time.Duration // before the answer, which is its own
	after bool          // the request has had its effect
	half  bool          // it answers as it should, and breaks off in the middle
}

// Words of the API server: 429 of pkg/server/filters (maxinflight.go and
// priority-and-fairness.go), 503 while it shuts down of waitgroup.go, 500 of
// pkg/endpoints/handlers/responsewriters/status.go with those of etcd's
// server/etcdserver/errors, 409 of apimachinery's errors.NewConflict.
const (
	busy        = "Too many requests, please try again later."
	goingDown   = "apiserver is shutting down"
	timedOut    = "etcdserver: request timed out"
	otherLeader = "etcdserver: leader changed"
	modified    = "the object has been modified; please apply your changes to the latest version and try again"
)

func kubeFaults() []fault {
	return []fault{
		{name: "k8s-crash-before", of: ofKubernetes, kills: true},
		{name: "k8s-crash-after", of: ofKubernetes, kills: true, where: target.mutating, storm: storm{after: true}},
		{name: "k8s-429", of: ofKubernetes, storm: storm{code: 429, wait: "1"}},
		{name: "k8s-429-storm", of: ofKubernetes, storm: storm{code: 429, wait: "1", lasts: 90 * time.Second}},
		{name: "k8s-503", of: ofKubernetes, storm: storm{code: 503, says: goingDown, wait: "1"}},
		{name: "k8s-503-storm", of: ofKubernetes, storm: storm{code: 503, says: goingDown, lasts: 90 * time.Second}},
		{name: "k8s-etcd", of: ofKubernetes, storm: storm{code: 500, says: timedOut}},
		{name: "k8s-etcd-with-effect", of: ofKubernetes, where: target.mutating, storm: storm{code: 500, says: timedOut, after: true}},
		{name: "k8s-etcd-storm", of: ofKubernetes, storm: storm{code: 500, says: otherLeader, lasts: 40 * time.Second}},
		{name: "k8s-409", of: ofKubernetes, where: target.mutating, storm: storm{code: 409, says: modified}},
		{name: "k8s-409-storm", of: ofKubernetes, where: target.mutating, storm: storm{code: 409, says: modified, lasts: 10 * time.Second}},
		{name: "k8s-dropped", of: ofKubernetes},
		{name: "k8s-dropped-after-effect", of: ofKubernetes, where: target.mutating, storm: storm{after: true}},
		{name: "k8s-cut-answer", of: ofKubernetes, storm: storm{half: true}},
		{name: "k8s-slow-by-31s", of: ofKubernetes, storm: storm{delay: 31 * time.Second}},
		{name: "k8s-unauthorized", of: ofKubernetes, storm: storm{code: 401, says: "Unauthorized", lasts: 6 * time.Hour}},
		{name: "k8s-gone", of: ofKubernetes, storm: storm{lasts: 6 * time.Hour}},
	}
}

// apiDoor is where a run's requests to Kubernetes go through.
type apiDoor struct {
	b     *battle
	mu    sync.Mutex
	seen  map[[2]string]int
	note  func(target) // told of each; may be nil
	armed []*aimedStorm
}

type aimedStorm struct {
	aimed
	since time.Time // that it goes on; zero: not yet
}

func (d *apiDoor) arm(a aimed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = append(d.armed, &aimedStorm{aimed: a})
}

// name is a request's name. A trial of what a change would do is none.
func (d *apiDoor) name(r *http.Request) target {
	to := target{of: ofKubernetes, method: r.Method, path: r.URL.Path}
	if slices.Contains(r.URL.Query()["dryRun"], metav1.DryRunAll) {
		to.method = "TRY"
	}
	key := [2]string{to.method, to.path}
	d.seen[key]++
	to.nth = d.seen[key]
	return to
}

// meets returns the fault that a request meets, nil for none.
func (d *apiDoor) meets(r *http.Request) *fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	to := d.name(r)
	if d.note != nil {
		d.note(to)
	}
	for _, a := range d.armed {
		switch {
		case a.since.IsZero() && to == a.at:
			a.since = time.Now()
			d.b.met.Store(true)
			return &a.fault
		case !a.since.IsZero() && time.Since(a.since) < a.fault.storm.lasts && a.fault.applies(to):
			return &a.fault
		}
	}
	return nil
}

func (d *apiDoor) ask(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	f := d.meets(r)
	if f == nil {
		return d.b.alive(next, r)
	}
	if f.kills && !f.storm.after {
		d.b.die()
	}
	if f.storm.after || f.storm.half || f.storm.delay > 0 {
		res, err := d.b.alive(next, r)
		if f.kills {
			d.b.die()
		}
		if err != nil {
			return nil, err
		}
		if !f.storm.after {
			return f.storm.spoilt(res)
		}
		_ = res.Body.Close()
	} else {
		unsent(r)
	}
	switch {
	case f.kills:
		return nil, io.ErrClosedPipe
	case f.storm.code == 0:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return f.storm.answer(r)
}

// spoilt is an answer that comes late, or not all of it.
func (s storm) spoilt(res *http.Response) (*http.Response, error) {
	if s.half {
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		_ = res.Body.Close()
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), broken{}))
		return res, nil
	}
	select {
	case <-res.Request.Context().Done():
		_ = res.Body.Close()
		return nil, context.Cause(res.Request.Context())
	case <-time.After(s.delay):
		return res, nil
	}
}

// broken is the end of a connection that breaks.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func (s storm) answer(r *http.Request) (*http.Response, error) {
	text, kind := busy, "text/plain; charset=utf-8"
	if s.code != http.StatusTooManyRequests {
		reasons := map[int]metav1.StatusReason{
			401: metav1.StatusReasonUnauthorized, 409: metav1.StatusReasonConflict, 503: metav1.StatusReasonServiceUnavailable,
		}
		status, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Code: int32(s.code), Reason: reasons[s.code], Message: s.says,
		})
		if err != nil {
			return nil, err
		}
		text, kind = string(status), "application/json"
	}
	header := http.Header{"Content-Type": {kind}}
	if s.wait != "" {
		header.Set("Retry-After", s.wait)
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", s.code, http.StatusText(s.code)), StatusCode: s.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r,
	}, nil
}
