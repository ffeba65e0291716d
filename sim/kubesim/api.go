package kubesim

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/served"
)

// target is what a request is about.
type target struct {
	kind      kind
	namespace string
	name      string // empty: the collection
	sub       string // subresource
	rest      string // the path behind it, of a proxy
	query     url.Values
	dryRun    bool
	agent     string
}

// server answers requests to a cluster's API.
type server struct{ *Cluster }

// ServeHTTP serves the API.
func (c server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	dryRun := slices.Contains(r.URL.Query()["dryRun"], metav1.DryRunAll)
	if c.plays { // for tests; a lab that runs for weeks would only grow
		c.mu.Lock()
		c.log = append(c.log, Request{Method: r.Method, Path: r.URL.RequestURI(), DryRun: dryRun, Agent: r.UserAgent()})
		c.mu.Unlock()
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		// As in K3s, unauthenticated clients get no answer, not even the health.
		answer(w, nil, 0, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "reviews") {
		body, _ := io.ReadAll(http.MaxBytesReader(nil, r.Body, 3<<20)) // a longer one is cut off
		body, err := toJSON(r.Header.Get("Content-Type"), body)
		if err == nil {
			var out any
			var is bool
			if out, is, err = served.Review(r.URL.Path, r.TLS.PeerCertificates[0].Subject.CommonName, body); is {
				answer(w, out, http.StatusCreated, err)
				return
			}
		}
	}
	t, out, err := c.find(r)
	if out != nil || err != nil {
		answer(w, out, http.StatusOK, err)
		return
	}
	t.query, t.dryRun, t.agent = r.URL.Query(), dryRun, r.UserAgent()
	switch {
	case r.Method == http.MethodGet && t.sub == "" && (t.query.Get("watch") == "true" || t.query.Get("watch") == "1"):
		c.watch(w, r, t)
	case toNode(t):
		c.passOn(w, r, t)
	default:
		c.serve(w, r, t)
	}
}

// find answers requests that are about no objects; else it says what a request is about.
func (c server) find(r *http.Request) (t target, out any, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if out, ok := c.general(r.URL.Path); ok {
		return t, out, nil
	}
	if out, ok := c.openAPI(r.URL.Path); ok {
		return t, out, nil
	}
	t, err = c.route(r.URL.EscapedPath())
	return t, nil, err
}

// answer writes an answer: a text, an object, or an error's status.
func answer(w http.ResponseWriter, out any, code int, err error) {
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			status = apierrors.NewBadRequest(err.Error())
		}
		s := status.Status()
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		out, code = s, int(s.Code)
	}
	if text, ok := out.(string); ok {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(out)
}

func (c server) serve(w http.ResponseWriter, r *http.Request, t target) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 3<<20))
	if err != nil {
		answer(w, nil, 0, apierrors.NewRequestEntityTooLargeError(err.Error()))
		return
	}
	if body, err = toJSON(r.Header.Get("Content-Type"), body); err != nil {
		answer(w, nil, 0, err)
		return
	}
	c.mu.Lock()
	v := viewOf(r)
	out, code, err := c.dispatch(t, r.Method, r.Header.Get("Content-Type"), body)
	c.mu.Unlock()
	if obj, ok := out.(map[string]any); ok && err == nil {
		out = v.render(t.kind, t.kind.as(obj))
	}
	answer(w, out, code, err)
}

// toJSON turns what a typed client sends, protobuf, into what everything here reads. Answers are
// always JSON, which each client accepts.
func toJSON(contentType string, body []byte) ([]byte, error) {
	if !strings.HasPrefix(contentType, runtime.ContentTypeProtobuf) || len(body) == 0 {
		return body, nil
	}
	obj, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	return json.Marshal(obj)
}

func (c server) watch(w http.ResponseWriter, r *http.Request, t target) {
	c.mu.Lock()
	watcher, err := c.newWatcher(t, viewOf(r))
	c.mu.Unlock()
	if err != nil {
		answer(w, nil, 0, err)
		return
	}
	watcher.serve(w, r)
}

// general answers requests that are not about objects.
func (c server) general(path string) (any, bool) {
	switch path {
	case "/readyz", "/livez", "/healthz":
		return "ok", true
	case "/version":
		return version.Info{Major: "1", GitVersion: c.cfg.Version, Platform: "linux/amd64"}, true
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, true
	case "/apis":
		return c.groups(), true
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) == 2 && parts[0] == "api":
		gv.Version = parts[1]
	case len(parts) == 3 && parts[0] == "apis":
		gv.Group, gv.Version = parts[1], parts[2]
	default:
		return nil, false
	}
	list := c.discovery(gv)
	return list, len(list.APIResources) > 0
}

// route finds out what a path is about.
func (c server) route(path string) (target, error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		if q, err := url.PathUnescape(p); err == nil {
			parts[i] = q
		}
	}
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return target{}, noPath()
	}
	var t target
	if parts[0] == "namespaces" && len(parts) > 2 && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		t.namespace, parts = parts[1], parts[2:]
	}
	var ok bool
	t.kind, ok = find(c.kinds, func(k kind) bool { return k.GroupVersion() == gv && k.plural == parts[0] })
	if len(parts) > 3 && parts[2] == "proxy" {
		t.rest, parts = strings.Join(parts[3:], "/"), parts[:3]
	}
	if !ok || len(parts) > 3 || t.namespace != "" && !t.kind.namespaced {
		return target{}, noPath()
	}
	if len(parts) > 1 {
		t.name = parts[1]
	}
	if len(parts) > 2 {
		t.sub = parts[2]
	}
	return t, nil
}

func noPath() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
}

func (c server) dispatch(t target, method, contentType string, body []byte) (any, int, error) {
	switch {
	case t.name == "" && method == http.MethodGet:
		return c.list(t)
	case t.name == "" && method == http.MethodPost:
		return c.create(t, body)
	case t.name == "" && method == http.MethodDelete:
		return c.deleteAll(t, body)
	case t.name == "":
		return nil, 0, apierrors.NewMethodNotSupported(t.kind.resource(), method)
	case method == http.MethodPatch && strings.HasPrefix(contentType, "application/apply-patch+yaml"):
		return c.apply(t, body)
	}
	e := c.get(t.kind, t.namespace, t.name)
	if e == nil {
		return nil, 0, apierrors.NewNotFound(t.kind.resource(), t.name)
	}
	switch {
	case t.sub == "eviction" && method == http.MethodPost:
		return c.evict(t, e, body)
	case t.sub != "" && t.sub != "status":
		return c.subresource(t, e, method, contentType, body)
	case method == http.MethodGet:
		return e.obj, http.StatusOK, nil
	case method == http.MethodPut:
		obj, err := decode(body)
		if err != nil {
			return nil, 0, err
		}
		return c.replace(t, e, obj)
	case method == http.MethodPatch:
		obj, err := patch(e, contentType, body)
		if err != nil {
			return nil, 0, err
		}
		return c.replace(t, e, obj)
	case method == http.MethodDelete:
		return c.delete(t, e, body)
	}
	return nil, 0, apierrors.NewMethodNotSupported(t.kind.resource(), method)
}

func decode(body []byte) (map[string]any, error) {
	js, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(js); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return u.Object, nil
}
