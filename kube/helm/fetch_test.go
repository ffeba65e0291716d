package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube/chart"
)

// TestWhereDownloadsAre: each repository has a folder, and no name leads out of it.
func TestWhereDownloadsAre(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/cache")
	path := func(s Source, r chart.Release) string {
		d := s.cachePath(r)
		require.NoError(t, d.none)
		return d.path()
	}
	r := chart.Release{Chart: "web", Version: "1.0.0", Repo: "https://a.example/stable"}
	one := path(Source{}, r)
	assert.Regexp(t, `^/cache/homelab/charts/[0-9a-f]{16}/web-1\.0\.0\.tgz$`, one)
	assert.Equal(t, one, path(Source{}, chart.Release{Chart: "web", Version: "1.0.0", Repo: "https://a.example/stable/"}))
	assert.NotEqual(t, one, path(Source{}, chart.Release{Chart: "web", Version: "1.0.0", Repo: "https://a.example/other"}))
	assert.Regexp(t, `^/mine/[0-9a-f]{16}/c-1\.tgz$`, path(Source{Cache: "/mine"}, chart.Release{Chart: "a/../../b/c", Version: "1", Repo: r.Repo}))
	t.Setenv("XDG_CACHE_HOME", "not/absolute")
	require.ErrorContains(t, Source{}.cachePath(r).store(nil), "folder for downloaded charts: ")
	assert.False(t, Source{}.cachePath(r).isStored())
}

func TestKeepIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "c.tgz")
	require.NoError(t, writeAtomically(path, []byte("one")))
	require.NoError(t, writeAtomically(path, []byte("two")))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "two", string(got))
	require.ErrorContains(t, writeAtomically(filepath.Join(path, "d.tgz"), nil), "folder for downloaded charts: ")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "full", "x"), 0o700))
	require.ErrorContains(t, writeAtomically(filepath.Join(dir, "full"), []byte("x")), "keep a downloaded chart: rename")
	require.ErrorContains(t, writeAtomically("/proc/self/x.tgz", nil), "keep a downloaded chart: ")
	left, err := filepath.Glob(dir + "/.part*")
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestIndexes(t *testing.T) {
	for want, text := range map[string]string{"index.yaml: ": "{", "index.yaml lists no chart: is this the URL of a chart repository?": "entries: {}"} {
		_, err := parseIndex([]byte(text))
		assert.ErrorContains(t, err, want)
	}
	ix, err := parseIndex([]byte("entries: {web: [{version: v2.0.0, urls: [b.tgz]}, {version: 1.0.0, urls: [a.tgz], digest: d}, {version: 3.0.0}], many: [{version: '6'}, {version: '5'}, {version: '4'}, {version: '3'}, {version: '2'}], more: [{version: '6'}, {version: '5'}, {version: '4'}, {version: '3'}, {version: '2'}, {version: '1'}]}"))
	require.NoError(t, err)
	for _, version := range []string{"1.0.0", "v1.0.0"} {
		e, err := ix.find("web", version)
		require.NoError(t, err)
		assert.Equal(t, entry{Version: "1.0.0", URLs: []string{"a.tgz"}, Digest: "d"}, e)
	}
	e, err := ix.find("web", "2.0.0")
	require.NoError(t, err)
	assert.Equal(t, []string{"b.tgz"}, e.URLs)
	for _, c := range []struct{ chart, version, want string }{
		{"web", "3.0.0", "its index names no URL for web 3.0.0"}, {"wob", "1", "it has no chart wob"},
		{"many", "9", "it has no version 9 of many, but 6, 5, 4, 3, 2"}, {"more", "9", "it has no version 9 of more, but 6, 5, 4, 3, 2, …"},
	} {
		_, err := ix.find(c.chart, c.version)
		assert.EqualError(t, err, c.want)
	}
}

func TestDigestsOfAnIndex(t *testing.T) {
	const none = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, digest := range []string{"", none, "sha256:" + none, strings.ToUpper(none)} {
		assert.NoError(t, checkDigest(nil, digest), digest)
	}
	assert.ErrorContains(t, checkDigest([]byte("x"), none), "and the index says "+none+": it was changed on the way")
	assert.Equal(t, "sha256:"+none, digestOf(nil))
}

// TestDownloadsAreTriedAgain: in growing steps, as long as there is hope and somebody waits.
func TestDownloadsAreTriedAgain(t *testing.T) {
	u, err := url.Parse("https://teacher:hunter2@charts.example.com/a.tgz")
	require.NoError(t, err)
	body := func(r io.Reader) *http.Response {
		return &http.Response{StatusCode: 200, Status: "200 OK", Body: io.NopCloser(r)}
	}
	broken := func() *http.Response { return body(io.MultiReader(strings.NewReader("x"), errReader{})) }
	refused := func() *http.Response { return nil }
	for _, c := range []struct {
		answers []func() *http.Response
		asked   int
		took    time.Duration
		want    string
	}{
		{[]func() *http.Response{broken, refused, func() *http.Response { return body(strings.NewReader("0123")) }}, 3, 1200 * time.Millisecond, ""},
		{[]func() *http.Response{refused}, 3, 1200 * time.Millisecond, "https://xxxxx@charts.example.com/a.tgz cannot be reached: refused"},
		{[]func() *http.Response{broken}, 3, 1200 * time.Millisecond, "https://xxxxx@charts.example.com/a.tgz broke off: broken"},
		{[]func() *http.Response{func() *http.Response { return body(strings.NewReader("01234")) }}, 1, 0, "https://xxxxx@charts.example.com/a.tgz has more than 0 MiB"},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked, began := 0, time.Now()
			client := &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
				resp := c.answers[min(asked, len(c.answers)-1)]()
				asked++
				if resp == nil {
					return nil, errors.New("refused")
				}
				resp.Request = r
				return resp, nil
			})}
			data, err := get(t.Context(), client, u, 4)
			assert.Equal(t, c.asked, asked)
			assert.Equal(t, c.took, time.Since(began))
			if c.want != "" {
				require.EqualError(t, err, c.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "0123", string(data))
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		asked := 0
		client := &http.Client{Transport: tripper(func(*http.Request) (*http.Response, error) { asked++; return nil, errors.New("refused") })}
		began := time.Now()
		_, err := get(ctx, client, u, 4)
		require.ErrorContains(t, err, "refused")
		assert.Equal(t, 2, asked)
		assert.Equal(t, 500*time.Millisecond, time.Since(began), "nobody waits any more")
		_, err = get(ctx, client, u, 4)
		require.Error(t, err)
		assert.Equal(t, 3, asked, "nor is it asked again then")
	})
	_, err = get(t.Context(), http.DefaultClient, &url.URL{Scheme: "https", Host: "a b"}, 4)
	require.Error(t, err)
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestWhatAnIndexLeadsTo: the URLs are relative to it, get its credentials where they are on its
// server only, and do not lead out of TLS unless a digest guards them; the next one is tried.
func TestWhatAnIndexLeadsTo(t *testing.T) {
	run := func(repo, urls, digest string, pinned bool) (asked []string, err error) {
		index := "entries: {web: [{version: 1.0.0, urls: [" + urls + "], digest: '" + digest + "'}]}"
		client := &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
			user := ""
			if name, _, ok := r.BasicAuth(); ok {
				user = " as " + name
			}
			asked = append(asked, r.URL.Scheme+"://"+r.URL.Host+r.URL.Path+user)
			text := map[string]string{"/stable/index.yaml": index, "/stable/a.tgz": "data", "/b.tgz": "data", "/stable/bad.tgz": "other"}[r.URL.Path]
			status := http.StatusOK
			if text == "" {
				status = http.StatusNotFound
			}
			return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
		})}
		u, perr := url.Parse(repo)
		require.NoError(t, perr)
		data, err := fromIndex(t.Context(), client, u, chart.Release{Chart: "web", Version: "1.0.0", Repo: repo}, pinned)
		assert.Equal(t, err == nil, string(data) == "data")
		return asked, err
	}
	sum := strings.TrimPrefix(digestOf([]byte("data")), "sha256:")
	for _, c := range []struct {
		repo, urls, digest string
		asked              string // without the index
		want               string
	}{
		{"https://r.example/stable", "a.tgz", "", "https://r.example/stable/a.tgz", ""},
		{"https://r.example/stable/", "/b.tgz", sum, "https://r.example/b.tgz", ""},
		{"https://teacher:x@r.example/stable", "a.tgz", "", "https://r.example/stable/a.tgz as teacher", ""},
		{"https://teacher:x@r.example/stable", "'https://r.example/b.tgz'", "", "https://r.example/b.tgz as teacher", ""},
		{"https://teacher:x@r.example/stable", "'https://student1:y@r.example/b.tgz'", "", "https://r.example/b.tgz as student1", ""},
		{"https://teacher:x@r.example/stable", "'https://other.example/b.tgz'", "", "https://other.example/b.tgz", ""},
		{"https://r.example/stable", "'http://other.example/b.tgz'", "", "", "https://r.example/stable/ leads to http://other.example/b.tgz, which is without TLS"},
		{"https://r.example/stable", "'http://other.example/b.tgz'", sum, "http://other.example/b.tgz", ""},
		{"http://r.example/stable", "'http://other.example/b.tgz'", "", "http://other.example/b.tgz", ""},
		{"https://r.example/stable", "none.tgz, bad.tgz, a.tgz", sum, "https://r.example/stable/none.tgz https://r.example/stable/bad.tgz https://r.example/stable/a.tgz", ""},
		{"https://r.example/stable", "none.tgz, bad.tgz", sum, "https://r.example/stable/none.tgz https://r.example/stable/bad.tgz", "bad.tgz, which the index of https://r.example/stable names: the download has the digest"},
		{"https://r.example/stable", "':x'", "", "", "(not a URL), which the index of"},
		{"https://r.example/stable", "'oci://127.0.0.1:1/team/web'", "", "http://127.0.0.1:1/v2/team/web/manifests/1.0.0", "oci://127.0.0.1:1/team/web: tag 1.0.0: "},
		{"https://r.example/stable", "'oci://r.example/team/web:2.0'", "", "https://r.example/v2/team/web/manifests/2.0", "tag 2.0: "},
		{"https://r.example/stable", "'oci://r.example:5000/team/web:2.0'", "", "https://r.example:5000/v2/team/web/manifests/2.0", "oci://r.example:5000/team/web: tag 2.0: "},
		{"https://r.example/stable", "'oci://r.example/team/web@" + digestOf(nil) + "'", "", "https://r.example/v2/team/web/manifests/" + digestOf(nil), "tag " + digestOf(nil)},
		{"https://r.example/stable", "'oci://r.example'", "", "", "invalid reference"},
	} {
		asked, err := run(c.repo, c.urls, c.digest, true)
		assert.Equal(t, c.asked, strings.Join(asked[1:], " "), "%+v", c)
		if c.want == "" {
			require.NoError(t, err, "%+v", c)
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
	_, err := run("https://r.example/other", "", "", true)
	require.EqualError(t, err, "https://r.example/other/index.yaml answers 404")
	_, err = run("https://r.example/stable", "", "", true)
	require.EqualError(t, err, "repository https://r.example/stable: its index names no URL for web 1.0.0")

	_, err = run("https://r.example/stable", "a.tgz", sum, false)
	require.NoError(t, err)
	_, err = run("https://r.example/stable", "a.tgz", "", false)
	require.EqualError(t, err, "repository https://r.example/stable: its index has no digest of web 1.0.0, so nothing shows that the archive is the one that was published\n"+
		"  compare it with its author's, and pin it under charts.digests: sha256:"+sum)
}

// TestRepositoriesThatAreNone: and what they may hold of passwords is not repeated.
func TestRepositoriesThatAreNone(t *testing.T) {
	for repo, want := range map[string]string{
		"https://teacher:hunter2@a b/":    `repository "(not a URL)" is not a URL`,
		"ftp://teacher:hunter2@a.example": "repository ftp://xxxxx@a.example: its scheme must be https or oci",
		"oci://bad host":                  `repository "(not a URL)" is not a URL`,
		"oci://":                          "oci:///web: ",
	} {
		_, err := Source{}.fetch(t.Context(), chart.Release{Chart: "web", Version: "1.0.0", Repo: repo}, "")
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestManifestsOfRegistries(t *testing.T) {
	layer := func(media string, size int64, digest string) string {
		return fmt.Sprintf(`{"mediaType": %q, "size": %d, "digest": %q}`, media, size, digest)
	}
	good := "sha256:" + strings.Repeat("0", 64)
	list := func(layers ...string) []byte { return []byte(`{"layers": [` + strings.Join(layers, ",") + `]}`) }
	for _, size := range []int64{0, 5, maxArchive} {
		got, err := parseManifest(list(layer("text/plain", 1, "x"), layer(chartLayer, size, good)))
		require.NoError(t, err)
		assert.Equal(t, size, got.Size)
		assert.Equal(t, good, string(got.Digest))
	}
	for want, text := range map[string][]byte{
		"manifest: ": []byte("{"), "this is not a Helm chart: its manifest has no layer of type " + chartLayer: list(layer("text/plain", 1, good)),
		"the chart's layer has -1 bytes, more than 100 MiB":        list(layer(chartLayer, -1, good)),
		"the chart's layer has 104857601 bytes, more than 100 MiB": list(layer(chartLayer, maxArchive+1, good)),
		"invalid checksum digest format":                           list(layer(chartLayer, 1, "x")),
	} {
		_, err := parseManifest(text)
		require.ErrorContains(t, err, want)
	}
	for registry, is := range map[string]bool{"localhost": true, "localhost:5000": true, "127.0.0.1": true, "127.9.9.9:80": true, "[::1]:80": true,
		"::1": true, "example.com": false, "example.com:443": false, "10.0.0.1:5000": false, "localhost.example.com": false} {
		assert.Equal(t, is, loopback(registry), registry)
	}
}

// TestARegistryThatLies: about the manifest or the layer is found out.
func TestARegistryThatLies(t *testing.T) {
	data := []byte("archive")
	for name, c := range map[string]struct{ manifest, said, blob, want string }{
		"nothing wrong":     {"", "", "archive", ""},
		"another manifest":  {"", digestOf(nil), "archive", "mismatch"},
		"no chart in it":    {`{"layers": []}`, "", "archive", "this is not a Helm chart"},
		"no such layer":     {"", "", "", "not found"},
		"another layer":     {"", "", "ARCHIVE", "mismatch"},
		"a layer cut short": {"", "", "arch", "mismatch"},
	} {
		manifest := []byte(c.manifest)
		if c.manifest == "" {
			manifest = fmt.Appendf(nil, `{"layers": [{"mediaType": %q, "size": %d, "digest": %q}]}`, chartLayer, len(data), digestOf(data))
		}
		said := c.said
		if said == "" {
			said = digestOf(manifest)
		}
		client := &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: 200, Status: "200 OK", Header: http.Header{}, Request: r}
			text := manifest
			if strings.Contains(r.URL.Path, "/blobs/") {
				text = []byte(c.blob)
			} else {
				resp.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
				resp.Header.Set("Docker-Content-Digest", said)
			}
			if len(text) == 0 {
				resp.StatusCode = 404
			}
			resp.ContentLength, resp.Body = int64(len(text)), io.NopCloser(bytes.NewReader(text))
			return resp, nil
		})}
		got, err := pull(t.Context(), client, "r.example/team/web", "1.0.0")
		if c.want == "" {
			require.NoError(t, err, name)
			assert.Equal(t, data, got)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, "oci://r.example/team/web: ")
	}
}

// TestServersThatAreSilentAreGivenUpOn: TLS has ten seconds, an answer half a minute.
func TestServersThatAreSilentAreGivenUpOn(t *testing.T) {
	u := &url.URL{Scheme: "https", Host: "charts.example.com", Path: "/"}
	synctest.Test(t, func(t *testing.T) {
		s := Source{Dial: func(context.Context, string, string) (net.Conn, error) { c, _ := net.Pipe(); return c, nil }}
		client := s.client()
		began := time.Now()
		_, _, err := getOnce(t.Context(), client, u, 1)
		require.ErrorContains(t, err, "TLS handshake timeout")
		assert.Equal(t, 10*time.Second, time.Since(began))
		client.CloseIdleConnections()
	})
	synctest.Test(t, func(t *testing.T) {
		s := Source{Dial: func(context.Context, string, string) (net.Conn, error) {
			c, server := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, server) }()
			return c, nil
		}}
		client := s.client()
		began := time.Now()
		_, _, err := getOnce(t.Context(), client, &url.URL{Scheme: "http", Host: "charts.example.com", Path: "/"}, 1)
		require.ErrorContains(t, err, "timeout awaiting response headers")
		assert.Equal(t, 30*time.Second, time.Since(began))
		client.CloseIdleConnections()
	})
	plain, ok := Source{}.client().Transport.(*http.Transport)
	require.True(t, ok)
	assert.NotNil(t, plain.Proxy, "the environment's")
	own, ok := Source{Dial: (&net.Dialer{}).DialContext}.client().Transport.(*http.Transport)
	require.True(t, ok)
	assert.Nil(t, own.Proxy, "Dial is the way")
}
