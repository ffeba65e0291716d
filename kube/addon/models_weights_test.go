package addon_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/sim/facts"
)

const (
	weights   = "GGUF: what a model has learned"
	hubSecret = "hf_neverShown"
	hubPath   = "/unsloth/Qwen3-4B-GGUF/resolve/main/Qwen3-4B-Q4_K_M.gguf"
)

func digestOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// hub is Hugging Face, and the volume of a model that is fetched from it.
type hub struct {
	*httptest.Server
	linked string // the digest that it tells before a file; empty: none, as other servers
	whole  bool   // it sends no parts of files

	folder string // of the volume

	mu    sync.Mutex
	asked []string // method, path, range and who asks
}

func newHub(t *testing.T) *hub {
	for _, program := range []string{"curl", "flock", "bash"} {
		facts.Program(t, program, program)
	}
	h := &hub{folder: t.TempDir()}
	// The content is another server's, as Hugging Face's is: it gets no token.
	content := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.note(r)
		if h.whole {
			_, _ = w.Write([]byte(weights))
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(weights))
	}))
	t.Cleanup(content.Close)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.note(r)
		switch {
		case r.Header.Get("Authorization") != "Bearer "+hubSecret:
			http.Error(w, "Access to model is restricted", http.StatusUnauthorized)
			return
		case r.URL.Path != hubPath && !strings.Contains(r.URL.Path, "/resolve/b2cff646"):
			http.NotFound(w, r)
			return
		case h.linked != "":
			w.Header().Set("X-Linked-ETag", `"`+h.linked+`"`)
		}
		// By another name: to curl, other ports of a host are other servers only since 7.83.
		http.Redirect(w, r, strings.Replace(content.URL, "127.0.0.1", "localhost", 1)+"/content", http.StatusFound)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hub) note(r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	who := map[bool]string{true: " with a token"}[r.Header.Get("Authorization") != ""]
	h.asked = append(h.asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range"))+who)
}

// requests are those since the last call.
func (h *hub) requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.asked = nil }()
	return h.asked
}

// fetch runs the container that fetches, as its image would, and returns what it says.
func (h *hub) fetch(t *testing.T, m spec.Model, token string) (string, error) {
	t.Helper()
	c, file := fetcher(t, m, h.URL)
	args := slices.Concat(c.Command, c.Args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "/weights/", h.folder+"/")
	}
	require.True(t, strings.HasPrefix(file, "/weights/"), file)
	bin := t.TempDir() // a curl that leaves its arguments behind
	curl, err := exec.LookPath("curl")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "curl"), []byte("#!/bin/sh\necho \"$*\" >>"+bin+"/arguments\nexec "+curl+" \"$@\"\n"), 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, args[0], args[1:]...)
	run.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HF_TOKEN=" + token, "CURL_HOME=" + bin}
	out, err := run.CombinedOutput()
	said, _ := os.ReadFile(filepath.Join(bin, "arguments"))
	assert.NotContains(t, string(out)+string(said)+strings.Join(args, " "), hubSecret)
	return string(out), err
}

// fetcher is the container that fetches a model's file from a mirror, and the file's path for the server.
func fetcher(t *testing.T, m spec.Model, mirror string) (corev1.Container, string) {
	t.Helper()
	m.Mirror = mirror
	for _, o := range must(t, addon.Models{Models: []spec.Model{m}}, served(addon.Site{})).Before {
		if d, ok := o.(*appsv1.Deployment); ok {
			pod := d.Spec.Template.Spec
			require.Len(t, pod.InitContainers, 1)
			args := pod.Containers[0].Args
			assert.NotContains(t, args, "--hf-repo")
			return pod.InitContainers[0], args[slices.Index(args, "--model")+1]
		}
	}
	require.Fail(t, "no Deployment")
	return corev1.Container{}, ""
}

// has compares what the volume holds, by path, without its lock.
func (h *hub) has(t *testing.T, want map[string]string) {
	t.Helper()
	have := map[string]string{}
	require.NoError(t, filepath.Walk(h.folder, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || info.Name() == ".lock" {
			return err
		}
		data, err := os.ReadFile(path)
		have[strings.TrimPrefix(path, h.folder+"/")] = string(data)
		return err
	}))
	assert.Equal(t, want, have)
}

func pinned(digest string) spec.Model {
	m := models(spec.SecretRef{})[3]
	m.SHA256 = digest
	return m
}

// A file is fetched once, and served only with the digest that the file has.
func TestWeightsOfADigest(t *testing.T) {
	right, wrong := digestOf(weights), digestOf("another")
	m, file := pinned(right), "files/"+right+"/Qwen3-4B-Q4_K_M.gguf"
	get := []string{"HEAD " + hubPath + " with a token", "GET " + hubPath + " with a token", "GET /content"}

	t.Run("fetched once", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		var all sync.WaitGroup
		for range 4 { // replicas
			all.Go(func() {
				out, err := h.fetch(t, m, hubSecret)
				assert.NoError(t, err, out)
			})
		}
		all.Wait()
		assert.Equal(t, get, h.requests())
		h.has(t, map[string]string{file: weights})
	})
	t.Run("continued", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		for _, begin := range []string{weights[:9], weights} { // also where only the check is missing
			h.write(t, file+".part", begin)
			out, err := h.fetch(t, m, hubSecret)
			require.NoError(t, err, out)
			assert.Equal(t, fmt.Sprintf("GET /content bytes=%d-", len(begin)), h.requests()[2])
			h.has(t, map[string]string{file: weights})
			require.NoError(t, os.Remove(filepath.Join(h.folder, file)))
		}
	})
	t.Run("a server that sends whole files only", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		h.whole = true
		h.write(t, file+".part", weights[:9])
		out, err := h.fetch(t, m, hubSecret)
		require.Error(t, err, out)
		h.has(t, map[string]string{})
		out, err = h.fetch(t, m, hubSecret)
		require.NoError(t, err, out)
		h.has(t, map[string]string{file: weights})
	})
	t.Run("wrong, as the server says before", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		h.linked = right
		out, err := h.fetch(t, pinned(wrong), hubSecret)
		require.Error(t, err)
		assert.Equal(t, "models.file: "+h.URL+hubPath+" has the digest "+right+", not "+wrong+"\n", out)
		assert.Equal(t, get[:1], h.requests())
	})
	t.Run("wrong, as is seen after", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		out, err := h.fetch(t, pinned(wrong), hubSecret)
		require.Error(t, err)
		assert.True(t, strings.HasSuffix(out, "\nmodels.file: "+h.URL+hubPath+" has the digest "+right+", not "+wrong+"\n"), out)
		h.has(t, map[string]string{}) // so that the next one begins again
	})
	t.Run("a commit", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		at := pinned("")
		at.Revision = "b2cff646eb4bb1d68355c01b18ae02e7cf42d120"
		h.linked = wrong // the server is held to what it says
		out, err := h.fetch(t, at, hubSecret)
		require.Error(t, err)
		assert.Contains(t, out, "has the digest "+right+", not "+wrong)
		h.linked = ""
		out, err = h.fetch(t, at, hubSecret)
		require.NoError(t, err, out)
		h.has(t, map[string]string{"files/" + at.Revision + "/Qwen3-4B-Q4_K_M.gguf": weights})
	})
	t.Run("no right to read it", func(t *testing.T) {
		t.Parallel()
		out, err := newHub(t).fetch(t, m, "")
		require.Error(t, err)
		assert.Contains(t, out, "curl: (22) The requested URL returned error: 401")
	})
}

func (h *hub) write(t *testing.T, name, text string) {
	t.Helper()
	name = filepath.Join(h.folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
}
