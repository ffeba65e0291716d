package kube_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube"
)

// script is an API server that answers what a test has written down, for what the
// simulated cluster never says. By "VERB /path" it has what is answered one after the
// other, the last for good.
type script struct {
	mu      sync.Mutex
	answers map[string][]answer
	seen    []call
}

// answer is one of a script's. It is JSON, and 200 where nothing else is said.
type answer struct {
	status  int
	body    string
	headers map[string]string
	after   time.Duration
	cut     error // where the body breaks off
}

// call is a request that a script has seen.
type call struct {
	verb, path, body string
	query            map[string][]string
	header           http.Header
}

// kinds is what scripts serve unless they say otherwise.
var kinds = map[string]string{
	"/api/v1": `{"resources": [{"name": "nodes/status", "kind": "Node"}, {"name": "nodes", "kind": "Node"},
		{"name": "pods/eviction", "kind": "Eviction", "namespaced": true}, {"name": "pods", "kind": "Pod", "namespaced": true},
		{"name": "configmaps", "kind": "ConfigMap", "namespaced": true}, {"name": "secrets", "kind": "Secret", "namespaced": true},
		{"name": "namespaces", "kind": "Namespace"}, {"name": "persistentvolumes", "kind": "PersistentVolume"}]}`,
	"/apis/apps/v1": `{"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": true},
		{"name": "statefulsets", "kind": "StatefulSet", "namespaced": true}, {"name": "daemonsets", "kind": "DaemonSet", "namespaced": true}]}`,
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	name := r.Method + " " + r.URL.Path
	s.mu.Lock()
	a := answer{status: http.StatusNotFound, body: status(http.StatusNotFound, "no such thing")}
	if list := s.answers[name]; len(list) > 0 {
		a = list[0]
		s.answers[name] = list[min(1, len(list)-1):]
	} else if list, ok := kinds[r.URL.Path]; ok {
		a = answer{body: list}
	}
	s.seen = append(s.seen, call{verb: r.Method, path: r.URL.Path, body: string(body), query: r.URL.Query(), header: r.Header})
	s.mu.Unlock()
	select {
	case <-time.After(a.after):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	resp := &http.Response{StatusCode: max(a.status, http.StatusOK), Header: http.Header{}, Request: r}
	if a.status != 0 {
		resp.StatusCode = a.status
	}
	resp.Status = strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode)
	for k, v := range a.headers {
		resp.Header.Set(k, v)
	}
	resp.Body = io.NopCloser(strings.NewReader(a.body))
	if a.cut != nil {
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(a.body), broken{a.cut}))
	}
	return resp, nil
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// status is a Status as the API server answers it.
func status(code int, message string) string {
	b, _ := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message})
	return string(b)
}

// refusal is an answer that is a Status.
func refusal(code int, message string) answer {
	return answer{status: code, body: status(code, message)}
}

// calls returns "VERB /path" of what was seen, but for the questions after kinds.
func (s *script) calls() []string {
	var out []string
	for _, c := range s.all() {
		out = append(out, c.verb+" "+c.path)
	}
	return out
}

// all returns what was seen, but for the questions after kinds.
func (s *script) all() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []call
	for _, c := range s.seen {
		if _, kinds := kinds[c.path]; !kinds {
			out = append(out, c)
		}
	}
	return out
}

// scripted is a client of a script. A text is a single answer; of answers there may be many.
func scripted(t *testing.T, answers map[string]any) (*kube.Client, *script) {
	t.Helper()
	s := &script{answers: map[string][]answer{}}
	for name, a := range answers {
		switch a := a.(type) {
		case string:
			s.answers[name] = []answer{{body: a}}
		case answer:
			s.answers[name] = []answer{a}
		case []answer:
			s.answers[name] = a
		}
	}
	c, err := kube.New(kube.Config{Kubeconfig: []byte(somewhere), Wrap: func(http.RoundTripper) http.RoundTripper { return s }})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c, s
}

const somewhere = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.10:6443"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`

var errCut = errors.New("cut short")
