package helm_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

var caps = helm.Capabilities{Kubernetes: "v1.36.5+k3s1"}

// pack makes an archive of a chart of testdata.
func pack(t *testing.T, folder string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	root := os.DirFS("testdata/charts/" + folder)
	name, _, _ := strings.Cut(folder, "-")
	require.NoError(t, fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name + "/" + path, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}))
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// repository is a classic one over HTTP that counts requests.
type repository struct {
	*httptest.Server
	requests atomic.Int32
	digest   string
	archive  []byte
	status   int // of every answer, 0: 200
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{archive: pack(t, "web-1.0.0")}
	r.digest = digestOf(r.archive)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.requests.Add(1)
		switch {
		case r.status != 0:
			w.WriteHeader(r.status)
		case req.URL.Path == "/stable/index.yaml":
			_, _ = fmt.Fprintf(w, "apiVersion: v1\nentries:\n  web:\n  - {version: 1.1.0, urls: [web-1.1.0.tgz]}\n"+
				"  - {version: 1.0.0, urls: [files/web-1.0.0.tgz], digest: %q}\n", r.digest)
		case req.URL.Path == "/stable/files/web-1.0.0.tgz":
			_, _ = w.Write(r.archive)
		default:
			http.NotFound(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *repository) release() chart.Release {
	return chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.0.0", Repo: r.URL + "/stable"}
}

func TestRepository(t *testing.T) {
	repo := newRepository(t)
	source := helm.Source{Cache: t.TempDir()}
	require.NoError(t, source.Check(t.Context(), repo.release(), caps))
	assert.EqualValues(t, 2, repo.requests.Load(), "index and archive")
	first, err := source.Render(t.Context(), repo.release(), caps)
	require.NoError(t, err)
	assert.NotEmpty(t, first)
	assert.EqualValues(t, 2, repo.requests.Load(), "the second time it is there")
	source.Offline = true
	require.NoError(t, source.Check(t.Context(), repo.release(), caps))
	assert.EqualValues(t, 2, repo.requests.Load())

	t.Run("a broken download is fetched again", func(t *testing.T) {
		files, err := filepath.Glob(source.Cache + "/*/web-1.0.0.tgz")
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.WriteFile(files[0], []byte("half"), 0o600))
		require.ErrorContains(t, source.Check(t.Context(), repo.release(), caps), files[0])
		online := source
		online.Offline = false
		require.NoError(t, online.Check(t.Context(), repo.release(), caps))
	})
}

// TestLookingNeedsNotWrite: a chart that cannot be kept is used all the same, and fetched
// once where it is remembered.
func TestLookingNeedsNotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a-file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, prepare := range map[string]func(t *testing.T) helm.Source{
		"a folder that cannot be made": func(*testing.T) helm.Source { return helm.Source{Cache: filepath.Join(file, "charts")} },
		"no home folder": func(t *testing.T) helm.Source {
			t.Setenv("HOME", "")
			t.Setenv("XDG_CACHE_HOME", "")
			return helm.Source{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			repo, source := newRepository(t), prepare(t)
			var said []string
			ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { said = append(said, u.String()) })
			require.NoError(t, source.Check(ctx, repo.release(), caps))
			assert.Contains(t, strings.Join(said, "\n"), "chart web 1.0.0 is used, but not kept for the next time: ")
			require.NoError(t, source.Check(ctx, repo.release(), caps))
			assert.EqualValues(t, 4, repo.requests.Load())

			source = source.WithMemoryCache()
			for range 3 {
				_, err := source.Render(ctx, repo.release(), caps)
				require.NoError(t, err)
			}
			assert.EqualValues(t, 6, repo.requests.Load(), "index and archive, once")
			wrong := repo.release()
			wrong.Chart = "wob"
			require.ErrorContains(t, source.Check(ctx, wrong, caps), "it has no chart wob")
			other := repo.release()
			other.Digest = "sha256:" + strings.Repeat("0", 64)
			require.ErrorContains(t, source.Check(ctx, other, caps), "was expected", "what is in memory is compared, too")

			offline := prepare(t)
			offline.Offline = true
			require.ErrorContains(t, offline.Check(ctx, repo.release(), caps), "it is not among earlier downloads")
		})
	}
}

func TestRepositorySaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*repository, *chart.Release, *helm.Source)
		want   []string
	}{
		"no such version": {func(_ *repository, r *chart.Release, _ *helm.Source) { r.Version = "9.0.0" },
			[]string{"chart web 9.0.0", "it has no version 9.0.0 of web, but 1.1.0, 1.0.0", "put web-9.0.0.tgz into the folder of charts"}},
		"no such chart": {func(_ *repository, r *chart.Release, _ *helm.Source) { r.Chart = "wob" },
			[]string{"it has no chart wob"}},
		"no index": {func(_ *repository, r *chart.Release, _ *helm.Source) { r.Repo += "/deeper" },
			[]string{"/stable/deeper/index.yaml answers 404 Not Found"}},
		"changed on the way": {func(s *repository, _ *chart.Release, _ *helm.Source) { s.digest = digestOf(nil) },
			[]string{"the index says " + digestOf(nil), "changed on the way"}},
		"a server that fails": {func(s *repository, _ *chart.Release, _ *helm.Source) { s.status = 503 },
			[]string{"answers 503 Service Unavailable"}},
		"no server": {func(s *repository, _ *chart.Release, _ *helm.Source) { s.Close() },
			[]string{"/stable/index.yaml cannot be reached", "connection refused"}},
		"offline": {func(_ *repository, _ *chart.Release, s *helm.Source) { s.Offline = true },
			[]string{"it is not among earlier downloads, and we are offline"}},
		"no repository": {func(_ *repository, r *chart.Release, _ *helm.Source) { r.Repo = "" },
			[]string{"the release names no repository"}},
		"no place for charts": {func(_ *repository, r *chart.Release, _ *helm.Source) { r.Repo = "ftp://x" },
			[]string{"its scheme must be https or oci"}},
		"a password in the URL": {func(_ *repository, r *chart.Release, _ *helm.Source) {
			r.Repo = strings.Replace(r.Repo, "http://", "http://teacher:hunter2@", 1) + "/deeper"
		}, []string{"//xxxxx@"}},
		"not exact": {func(_ *repository, r *chart.Release, _ *helm.Source) { r.Version = "" },
			[]string{"exact version must be named"}},
	} {
		t.Run(name, func(t *testing.T) {
			repo := newRepository(t)
			r, source := repo.release(), helm.Source{Cache: t.TempDir()}
			c.change(repo, &r, &source)
			err := source.Check(t.Context(), r, caps)
			require.Error(t, err)
			for _, want := range c.want {
				assert.Contains(t, err.Error(), want)
			}
			assert.NotContains(t, err.Error(), "hunter2")
			left, err := filepath.Glob(source.Cache + "/*/*")
			require.NoError(t, err)
			assert.Empty(t, left, "nothing is kept of what failed")
		})
	}
}

func TestRepositoryObeysContextDialAndWrap(t *testing.T) {
	repo := newRepository(t)
	ctx, cancel := context.WithCancel(t.Context())
	source := helm.Source{Cache: t.TempDir(), Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	require.ErrorIs(t, source.Check(ctx, repo.release(), caps), context.Canceled)

	r := repo.release()
	r.Repo = "http://charts.example.com/stable" // only Dial knows where that is
	var asked []string
	source = helm.Source{Cache: t.TempDir(),
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, repo.Listener.Addr().String())
		},
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r.URL.Path)
				return next.RoundTrip(r)
			})
		}}
	require.NoError(t, source.Check(t.Context(), r, caps))
	assert.Equal(t, []string{"/stable/index.yaml", "/stable/files/web-1.0.0.tgz"}, asked)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// registry answers as an OCI registry does, to anonymous readers with a token.
func registry(t *testing.T, media string) *httptest.Server {
	t.Helper()
	layer := pack(t, "web-1.0.0")
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",`+
		`"config":{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"sha256:%s","size":2},`+
		`"layers":[{"mediaType":%q,"digest":"sha256:%s","size":%d}]}`, digestOf([]byte("{}")), media, digestOf(layer), len(layer))
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			_, _ = fmt.Fprint(w, `{"token":"anonymous"}`)
			return
		}
		if r.Header.Get("Authorization") != "Bearer anonymous" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="charts",scope="repository:team/charts/web:pull"`, server.URL))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/v2/team/charts/web/manifests/1.0.0", "/v2/team/charts/web/manifests/1.0.0_build":
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", "sha256:"+digestOf([]byte(manifest)))
			_, _ = fmt.Fprint(w, manifest)
		case "/v2/team/charts/web/blobs/sha256:" + digestOf(layer):
			_, _ = w.Write(layer)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestRegistry(t *testing.T) {
	const layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	server := registry(t, layer)
	r := chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.0.0",
		Repo: "oci://" + server.Listener.Addr().String() + "/team/charts"}
	source := helm.Source{Cache: t.TempDir()}
	require.NoError(t, source.Check(t.Context(), r, caps))

	r.Version = "2.0.0"
	err := source.Check(t.Context(), r, caps)
	require.ErrorContains(t, err, "/team/charts/web: tag 2.0.0")
	r.Version = "1.0.0+build"
	require.ErrorContains(t, source.Check(t.Context(), r, caps), "is version 1.0.0, and 1.0.0+build was asked for")

	image := registry(t, "application/vnd.oci.image.layer.v1.tar+gzip")
	r.Version, r.Repo = "1.0.0", "oci://"+image.Listener.Addr().String()+"/team/charts"
	require.ErrorContains(t, source.Check(t.Context(), r, caps), "this is not a Helm chart")
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pack(t, "web-1.0.0"), 0o600))
	}
	r := chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.0.0"}
	source := helm.Source{Folder: dir, Cache: t.TempDir()}
	err := source.Check(t.Context(), r, caps)
	var missing *helm.NotFoundError
	require.ErrorAs(t, err, &missing)
	assert.Contains(t, err.Error(), "folder "+dir+" has no chart of this name")

	write("web-1.0.0.tgz")
	write("web-proxy-2.0.0.tgz")
	require.NoError(t, source.Check(t.Context(), r, caps))
	r.Version = "v1.0.0"
	require.NoError(t, source.Check(t.Context(), r, caps), "with and without v")
	r.Version = "1.2.0"
	require.ErrorContains(t, source.Check(t.Context(), r, caps), "has web-1.0.0.tgz only")
	source.AnyVersion = true
	require.NoError(t, source.Check(t.Context(), r, caps))

	source.AnyVersion = false
	require.NoError(t, os.CopyFS(filepath.Join(dir, "web"), os.DirFS("testdata/charts/web-1.1.0")))
	err = source.Check(t.Context(), r, caps)
	require.ErrorContains(t, err, "is version 1.1.0, and 1.2.0 was asked for")
	r.Version = "1.1.0"
	require.NoError(t, source.Check(t.Context(), r, caps))

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "web", "charts")))
	require.ErrorContains(t, source.Check(t.Context(), r, caps), "lacks charts that it depends on: cache 0.1.0")

	source.Folder = dir + "/none"
	require.ErrorContains(t, source.Check(t.Context(), r, caps), "folder of charts")
}
