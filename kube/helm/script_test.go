package helm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
)

// talk is an API server that says what a test has written down: by "VERB /path", one
// answer after the other, the last for good. An answer is JSON, or a code and words.
type talk struct {
	mu      sync.Mutex
	answers map[string][]string
	heard   []string // "VERB /path" but for questions after kinds; dry runs are TRY
	bodies  map[string]string
	queries map[string]string
}

// served is what a talk serves.
var served = map[string]string{
	"/api/v1":                         "pods Pod, secrets Secret, configmaps ConfigMap, services Service, persistentvolumeclaims PersistentVolumeClaim, namespaces Namespace!",
	"/apis/apps/v1":                   "deployments Deployment, daemonsets DaemonSet, statefulsets StatefulSet",
	"/apis/batch/v1":                  "jobs Job",
	"/apis/storage.k8s.io/v1":         "storageclasses StorageClass!",
	"/apis/test.example.com/v1":       "gadgets Gadget",
	"/apis/apiextensions.k8s.io/v1":   "customresourcedefinitions CustomResourceDefinition!",
	"/apis/apiregistration.k8s.io/v1": "apiservices APIService!",
}

func (k *talk) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	verb := r.Method
	if r.URL.Query().Get("dryRun") != "" {
		verb = "TRY"
	}
	name := verb + " " + r.URL.Path
	k.mu.Lock()
	defer k.mu.Unlock()
	said := "404 no such thing"
	if list := k.answers[name]; len(list) > 0 {
		said = list[0]
		k.answers[name] = list[min(1, len(list)-1):]
	} else if kinds, ok := served[r.URL.Path]; ok {
		said = resources(kinds)
	}
	if _, ok := served[r.URL.Path]; !ok {
		k.heard = append(k.heard, name)
		k.bodies[name], k.queries[name] = string(body), r.URL.RawQuery
	}
	status, words, _ := strings.Cut(said, " ")
	code, err := strconv.Atoi(status)
	if err != nil {
		code = http.StatusOK
	} else {
		b, _ := json.Marshal(map[string]any{"kind": "Status", "code": code, "message": words})
		said = string(b)
	}
	return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Body: io.NopCloser(strings.NewReader(said)), Request: r, Header: http.Header{}}, nil
}

// resources writes kinds as discovery does; a kind with ! has no namespaces.
func resources(kinds string) string {
	var out []string
	for _, k := range strings.Split(kinds, ", ") {
		name, kind, _ := strings.Cut(k, " ")
		out = append(out, fmt.Sprintf(`{"name": %q, "kind": %q, "namespaced": %t}`, name, strings.TrimSuffix(kind, "!"), !strings.HasSuffix(kind, "!")))
	}
	return `{"resources": [` + strings.Join(out, ",") + `]}`
}

// said is what was heard of a verb.
func (k *talk) said(verb string) (paths []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.heard {
		if path, ok := strings.CutPrefix(h, verb+" "); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// talking is a client of a talk. A text is a single answer, of a list each is given once.
func talking(t *testing.T, answers map[string]any) (*Client, *talk) {
	t.Helper()
	k := &talk{answers: map[string][]string{}, bodies: map[string]string{}, queries: map[string]string{}}
	for name, a := range answers {
		switch a := a.(type) {
		case string:
			k.answers[name] = []string{a}
		case []string:
			k.answers[name] = a
		}
	}
	c, err := kube.New(kube.Config{Kubeconfig: []byte(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "https://10.0.0.10:6443"}}],
  contexts: [{name: c, context: {cluster: c}}], current-context: c}`), Wrap: func(http.RoundTripper) http.RoundTripper { return k }})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return NewClient(c, Source{Folder: "testdata/charts", Offline: true}), k
}

// thing reads an object.
func thing(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	objs, err := objects(text)
	require.NoError(t, err)
	require.Len(t, objs, 1)
	return objs[0]
}

// asJSON is an object as the API server says it.
func asJSON(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(value(t, text))
	require.NoError(t, err)
	return string(b)
}
