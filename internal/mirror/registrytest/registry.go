// Package registrytest has a registry of container images for tests, which fails as they say.
package registrytest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Registry is a small one (github.com/opencontainers/distribution-spec): manifests by tag or digest, blobs in one
// piece. Fault may answer a request in its place, and says so.
type Registry struct {
	*httptest.Server

	sync.Mutex // of all below, for a test that looks while requests may be under way

	Blobs     map[string][]byte // by repository@digest; manifests too
	kinds     map[string]string // media types of manifests
	Tags      map[string]string // digests by repository:tag
	requests  int
	Fault     func(n int, w http.ResponseWriter, r *http.Request) bool
	User, Key string
}

// New starts one that ends with the test.
func New(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{Blobs: map[string][]byte{}, kinds: map[string]string{}, Tags: map[string]string{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// Host is its name in those of images.
func (r *Registry) Host() string { return strings.TrimPrefix(r.URL, "http://") }

// ServeHTTP implements [http.Handler].
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.Lock()
	defer r.Unlock()
	r.requests++
	if r.Fault != nil && r.Fault(r.requests, w, q) {
		return
	}
	if user, key, _ := q.BasicAuth(); user != r.User || key != r.Key {
		w.Header().Set("Www-Authenticate", `Basic realm="r"`)
		http.Error(w, "{}", http.StatusUnauthorized)
		return
	}
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	switch {
	case strings.Contains(path, "/blobs/uploads/"):
		repo, _, _ := strings.Cut(path, "/blobs/uploads/")
		if q.Method == http.MethodPost {
			w.Header().Set("Location", "/v2/"+repo+"/blobs/uploads/1")
			w.WriteHeader(http.StatusAccepted)
			return
		}
		r.put(w, repo, q.URL.Query().Get("digest"), body)
	case strings.Contains(path, "/blobs/"):
		repo, sum, _ := strings.Cut(path, "/blobs/")
		r.get(w, q, repo+"@"+sum)
	default:
		repo, reference, _ := strings.Cut(path, "/manifests/")
		if q.Method == http.MethodPut {
			r.putManifest(w, q, repo, reference, body)
			return
		}
		if !strings.HasPrefix(reference, "sha256:") {
			reference = r.Tags[repo+":"+reference]
		}
		r.get(w, q, repo+"@"+reference)
	}
}

func (r *Registry) get(w http.ResponseWriter, q *http.Request, key string) {
	data, ok := r.Blobs[key]
	if !ok {
		http.Error(w, "{}", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", r.kinds[key])
	w.Header().Set("Docker-Content-Digest", key[strings.Index(key, "@")+1:])
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if q.Method != http.MethodHead {
		_, _ = w.Write(data)
	}
}

func (r *Registry) put(w http.ResponseWriter, repo, sum string, body []byte) {
	if digest.FromBytes(body).String() != sum {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	r.Blobs[repo+"@"+sum] = body
	w.WriteHeader(http.StatusCreated)
}

// putManifest refuses one whose parts are missing, as registries do.
func (r *Registry) putManifest(w http.ResponseWriter, q *http.Request, repo, reference string, body []byte) {
	var m struct {
		Config            *ocispec.Descriptor
		Layers, Manifests []ocispec.Descriptor
	}
	_ = json.Unmarshal(body, &m)
	parts := slices.Concat(m.Layers, m.Manifests)
	if m.Config != nil {
		parts = append(parts, *m.Config)
	}
	for _, d := range parts {
		if r.Blobs[repo+"@"+d.Digest.String()] == nil {
			http.Error(w, "{}", http.StatusBadRequest)
			return
		}
	}
	sum := digest.FromBytes(body).String()
	r.kinds[repo+"@"+sum] = q.Header.Get("Content-Type")
	if !strings.HasPrefix(reference, "sha256:") {
		r.Tags[repo+":"+reference] = sum
	}
	r.put(w, repo, sum, body)
}

// Image adds one of these architectures, and returns its digest: an index if there are several.
func (r *Registry) Image(repo, tag string, archs ...string) string {
	add := func(kind string, data []byte) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: kind, Digest: digest.FromBytes(data), Size: int64(len(data))}
		r.Blobs[repo+"@"+d.Digest.String()], r.kinds[repo+"@"+d.Digest.String()] = data, kind
		return d
	}
	as := func(kind string, v any) ocispec.Descriptor {
		data, _ := json.Marshal(v)
		return add(kind, data)
	}
	var index ocispec.Index
	index.SchemaVersion, index.MediaType = 2, ocispec.MediaTypeImageIndex
	for _, arch := range archs {
		m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: add(ocispec.MediaTypeImageConfig, []byte(`{"architecture":"`+arch+`"}`)),
			Layers: []ocispec.Descriptor{add(ocispec.MediaTypeImageLayer, []byte("common")), add(ocispec.MediaTypeImageLayer, []byte(repo+arch))}}
		m.SchemaVersion = 2
		d := as(ocispec.MediaTypeImageManifest, m)
		d.Platform = &ocispec.Platform{OS: "linux", Architecture: arch}
		index.Manifests = append(index.Manifests, d)
	}
	root := index.Manifests[0]
	if len(archs) > 1 {
		root = as(ocispec.MediaTypeImageIndex, index)
	}
	r.Tags[repo+":"+tag] = root.Digest.String()
	return root.Digest.String()
}
