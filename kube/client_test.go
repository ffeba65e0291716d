package kube_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// listening collects what is said as progress.
func listening(ctx context.Context) (context.Context, func() []string) {
	var mu sync.Mutex
	var said []string
	ctx = converge.WithProgress(ctx, func(u converge.ProgressUpdate) { mu.Lock(); defer mu.Unlock(); said = append(said, u.Message) })
	return ctx, func() []string { mu.Lock(); defer mu.Unlock(); return said }
}

func TestKubeconfigsThatAreWrong(t *testing.T) {
	for want, config := range map[string]kube.Config{
		"kubeconfig: ": {Kubeconfig: []byte("{")},
		"kubeconfig: invalid configuration: [context was not found for specified context: other": {Kubeconfig: []byte(somewhere), Context: "other"},
		`kubeconfig: server "https://a b": `:                                                     {Kubeconfig: []byte(strings.Replace(somewhere, "10.0.0.10:6443", "a b", 1))},
		"kubeconfig: unable to load root":                                                        {Kubeconfig: []byte(strings.Replace(somewhere, "{server", "{certificate-authority-data: eA==, server", 1))},
		"kubeconfig: invalid configuration: more than":                                           {Kubeconfig: []byte(strings.Replace(somewhere, "{cluster: c}}]", "{cluster: c, user: u}}]\nusers: [{name: u, user: {token: x, username: teacher}}]", 1))},
	} {
		_, err := kube.New(config)
		assert.ErrorContains(t, err, want)
	}
	_, err := kube.New(kube.Config{Kubeconfig: []byte(somewhere)})
	require.NoError(t, err)
}

// TestBusyServerIsAskedAgain: as long as it asks for, as often as is sensible, and only
// where it names a time.
func TestBusyServerIsAskedAgain(t *testing.T) {
	busy := func(status int, after string) answer {
		a := refusal(status, "overloaded")
		a.headers = map[string]string{"Retry-After": after}
		return a
	}
	ok := answer{body: `{"gitVersion": "v1"}`}
	for _, c := range []struct {
		answers []answer
		calls   int
		took    time.Duration
		want    error
	}{
		{[]answer{busy(429, "2"), busy(503, "1"), ok}, 3, 3 * time.Second, nil},
		{[]answer{busy(500, "1"), ok}, 2, time.Second, nil},
		{[]answer{busy(503, "2")}, 6, 10 * time.Second, kube.ErrUnreachable},
		{[]answer{busy(503, "7200"), ok}, 2, time.Minute, nil},
		{[]answer{busy(503, "0"), ok}, 1, 0, kube.ErrUnreachable},
		{[]answer{busy(503, "-3"), ok}, 1, 0, kube.ErrUnreachable},
		{[]answer{busy(503, "Fri, 31 Dec 2027 23:59:59 GMT"), ok}, 1, 0, kube.ErrUnreachable},
		{[]answer{busy(429, ""), ok}, 1, 0, kube.ErrUnreachable},
		{[]answer{busy(404, "2"), ok}, 1, 0, kube.ErrNotFound},
		{[]answer{busy(499, "2"), ok}, 1, 0, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, s := scripted(t, map[string]any{"GET /version": c.answers})
			began := time.Now()
			v, err := client.Version(t.Context())
			assert.Len(t, s.calls(), c.calls)
			assert.Equal(t, c.took, time.Since(began))
			if v == "" {
				require.Error(t, err)
				assert.ErrorContains(t, err, "ask the API server's version: ")
			}
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
		})
	}
}

func TestWaitingForABusyServerIsSaidAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := refusal(http.StatusTooManyRequests, "overloaded")
		a.headers = map[string]string{"Retry-After": "20"}
		client, s := scripted(t, map[string]any{"GET /version": a})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		ctx, said := listening(ctx)
		_, err := client.Version(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, kube.ErrUnreachable)
		assert.ErrorContains(t, err, "overloaded")
		assert.Len(t, s.calls(), 2)
		assert.Equal(t, []string{"the API server is busy: asking again in 20s", "the API server is busy: asking again in 20s"}, said())
	})
}

// TestEachRequestHasItsTime: a server that is silent is given up on, and the error says
// whose time was over.
func TestEachRequestHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for timeout, want := range map[time.Duration]time.Duration{0: 30 * time.Second, -1: 30 * time.Second, 5 * time.Second: 5 * time.Second} {
			s := &script{answers: map[string][]answer{"GET /readyz": {{after: time.Hour}}}}
			c, err := kube.New(kube.Config{Kubeconfig: []byte(somewhere), Timeout: timeout, Wrap: func(http.RoundTripper) http.RoundTripper { return s }})
			require.NoError(t, err)
			began := time.Now()
			err = c.CheckReachable(t.Context())
			assert.Equal(t, want, time.Since(began))
			require.ErrorIs(t, err, kube.ErrUnreachable)
			assert.ErrorContains(t, err, "no answer within "+want.String())

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err = c.CheckReachable(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.NotContains(t, err.Error(), "no answer within")

			ctx, cancel = context.WithCancel(t.Context())
			cancel()
			err = c.CheckReachable(ctx)
			require.ErrorIs(t, err, context.Canceled)
			assert.NotErrorIs(t, err, kube.ErrUnreachable, "it was not asked")
		}

		silent := func(context.Context, string, string) (net.Conn, error) { c, _ := net.Pipe(); return c, nil }
		c, err := kube.New(kube.Config{Kubeconfig: []byte(somewhere), Dial: silent})
		require.NoError(t, err)
		began := time.Now()
		require.ErrorIs(t, c.CheckReachable(t.Context()), kube.ErrUnreachable)
		assert.Equal(t, 10*time.Second, time.Since(began), "TLS has less time than a request")
	})
}

// TestIdleConnectionsAreKeptForAWhile: one connection is used again, but not after a minute and a half.
func TestIdleConnectionsAreKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := bare(t)
		dials := 0
		c, err := kube.New(kube.Config{Kubeconfig: w.sim.Kubeconfig("https://10.0.0.10:6443"),
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { dials++; return w.sim.Dial(ctx) }})
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		for _, pause := range []time.Duration{0, 80 * time.Second} {
			time.Sleep(pause)
			require.NoError(t, c.CheckReachable(t.Context()))
			assert.Equal(t, 1, dials)
		}
		time.Sleep(100 * time.Second)
		require.NoError(t, c.CheckReachable(t.Context()))
		assert.Equal(t, 2, dials)
	})
}

// TestRequestsSayWhatTheyAre: headers, verbs and bodies.
func TestRequestsSayWhatTheyAre(t *testing.T) {
	const one = "/api/v1/namespaces/default/configmaps/a"
	c, s := scripted(t, map[string]any{"GET /version": "{}", "PATCH " + one: "{}", "DELETE " + one: "{}"})
	_, err := c.Version(t.Context())
	require.NoError(t, err)
	obj := decode(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")[0]
	_, err = c.ServerSideApply(t.Context(), obj)
	require.NoError(t, err)
	require.NoError(t, c.Delete(t.Context(), obj))
	seen := s.all()
	require.Len(t, seen, 3)
	assert.Equal(t, "GET", seen[0].verb)
	assert.NotContains(t, seen[0].header, "Content-Type")
	assert.Empty(t, seen[0].body)
	assert.Equal(t, "application/apply-patch+yaml", seen[1].header.Get("Content-Type"))
	assert.Equal(t, map[string][]string{"fieldManager": {"homelab"}, "force": {"true"}}, seen[1].query)
	assert.Equal(t, "application/json", seen[2].header.Get("Content-Type"))
	assert.JSONEq(t, `{"propagationPolicy": "Background"}`, seen[2].body)
	for _, r := range seen {
		assert.Equal(t, "application/json", r.header.Get("Accept"))
		assert.Equal(t, "homelab", r.header.Get("User-Agent"))
	}
}

// TestAnswersThatAreNone: what is not an answer of an API server is an error that shows it.
func TestAnswersThatAreNone(t *testing.T) {
	long := strings.Repeat("x", 300)
	for want, a := range map[string]answer{
		"the API server does not answer: the API server's answer: ":   {body: "<html>"},
		"the API server does not answer: cut short":                   {body: "{", cut: errCut},
		"HTTP 300 Multiple Choices choose":                            {status: 300, body: " choose "},
		"HTTP 502 Bad Gateway " + strings.Repeat("x", 200) + "\n":     {status: 502, body: long},
		"HTTP 304 Not Modified":                                       {status: 304, headers: map[string]string{"Location": ""}},
		`HTTP 403 Forbidden {"kind": "Status", "message": "no code"}`: {status: 403, body: `{"kind": "Status", "message": "no code"}`},
		`HTTP 403 Forbidden {"kind": "Other", "code": 404}`:           {status: 403, body: `{"kind": "Other", "code": 404}`},
		`HTTP 403 Forbidden {"kind": "Status", "code": 404`:           {status: 403, body: `{"kind": "Status", "code": 404`},
		"HTTP 302 Found leads to https://evil.example, which is not followed because it would receive the credentials": {
			status: 302, headers: map[string]string{"Location": "https://evil.example/steal?x=y"}},
	} {
		c, _ := scripted(t, map[string]any{"GET /version": a})
		_, err := c.Version(t.Context())
		require.Error(t, err)
		assert.Contains(t, err.Error()+"\n", want)
		assert.Contains(t, err.Error(), "ask the API server's version: ")
	}
}

func TestWarningsArePassedOn(t *testing.T) {
	c, _ := scripted(t, map[string]any{"GET /readyz": answer{body: "ok", headers: map[string]string{"Warning": `299 - "v1beta1 is deprecated"`}}})
	ctx, said := listening(t.Context())
	require.NoError(t, c.CheckReachable(ctx))
	assert.Equal(t, []string{"the API server warns: v1beta1 is deprecated"}, said())
}

func TestWrapSeesFailures(t *testing.T) {
	broken := errors.New("no way")
	c, err := kube.New(kube.Config{Kubeconfig: []byte(somewhere), Wrap: func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(*http.Request) (*http.Response, error) { return nil, broken })
	}})
	require.NoError(t, err)
	err = c.CheckReachable(t.Context())
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, kube.ErrUnreachable)
}
