package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/cps-gpu/homelab/internal/mirror/registrytest"
)

func copyAll(t *testing.T, c Copier, names ...string) (copied []string, err error) {
	t.Helper()
	c.Source, c.PlainHTTP = &auth.Client{}, true
	if c.Destination == nil {
		c.Destination = &auth.Client{}
	}
	if c.Archs == nil {
		c.Archs = []string{"amd64"}
	}
	err = c.Copy(t.Context(), names, func(o Outcome) {
		if o.Bytes > 0 {
			copied = append(copied, o.Name)
		}
	})
	return copied, err
}

// TestThroughAFolder: from registries into a folder and from there to another registry, each time once.
func TestThroughAFolder(t *testing.T) {
	src, dst, folder := registrytest.New(t), registrytest.New(t), t.TempDir()
	one, pinned := src.Image("a/one", "v1", "amd64", "arm64", "s390x"), src.Image("b/two", "v2", "amd64", "arm64")
	names := []string{src.Host() + "/a/one:v1", src.Host() + "/b/two:v2@" + pinned}
	for _, want := range [][]string{names, nil} {
		copied, err := copyAll(t, Copier{To: Place{Folder: folder}}, names...)
		require.NoError(t, err)
		assert.Equal(t, want, copied)
	}
	src.Close()
	found, err := Names(t.Context(), folder)
	require.NoError(t, err)
	assert.Equal(t, names, found)
	c := Copier{From: Place{Folder: folder}, To: Place{Registry: dst.Host(), Project: "all"}}
	copied, err := copyAll(t, c, found...)
	require.NoError(t, err)
	assert.Equal(t, names, copied)
	assert.NotEqual(t, one, dst.Tags["all/a/one:v1"], "of one architecture")
	var m ocispec.Manifest
	require.NoError(t, json.Unmarshal(dst.Blobs["all/a/one@"+dst.Tags["all/a/one:v1"]], &m))
	assert.JSONEq(t, `{"architecture":"amd64"}`, string(dst.Blobs["all/a/one@"+m.Config.Digest.String()]))
	assert.NotNil(t, dst.Blobs["all/b/two@"+pinned], "whole, since a part would have another digest")
	copied, err = copyAll(t, c, found...)
	require.NoError(t, err)
	assert.Empty(t, copied)

	_, err = Names(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "has no images: images:mirror -out=FOLDER makes such a folder")
	_, err = Names(t.Context(), folder+"/none")
	require.ErrorContains(t, err, "the folder of images")
}

func TestArchitectures(t *testing.T) {
	src := registrytest.New(t)
	src.Image("a/one", "v1", "amd64", "arm64", "s390x")
	name := src.Host() + "/a/one:v1"
	to := registrytest.New(t)
	both := Copier{To: Place{Registry: to.Host()}, Archs: []string{"amd64", "arm64"}}
	_, err := copyAll(t, both, name)
	require.NoError(t, err)
	var index ocispec.Index
	require.NoError(t, json.Unmarshal(to.Blobs["a/one@"+to.Tags["a/one:v1"]], &index))
	require.Len(t, index.Manifests, 2)
	_, err = copyAll(t, Copier{To: Place{Registry: to.Host()}}, name)
	require.ErrorContains(t, err, "has another image under this name")
	_, err = copyAll(t, Copier{To: Place{Registry: to.Host()}, Replace: true}, name)
	require.NoError(t, err)
	assert.Equal(t, index.Manifests[0].Digest.String(), to.Tags["a/one:v1"])
	_, err = copyAll(t, Copier{To: Place{Registry: registrytest.New(t).Host()}, Archs: []string{"riscv64"}}, name)
	require.ErrorContains(t, err, "there is no image for any of these architectures: riscv64; it has amd64, arm64, s390x")
	_, err = copyAll(t, both, "a.io/x:1", "b.io/x:1")
	require.ErrorContains(t, err, "a.io/x:1 and b.io/x:1 would be one image in")
	digest := "@sha256:" + strings.Repeat("0", 64)
	assert.NoError(t, both.distinct([]string{"a.io/x/a:bc", "a.io/x/ab:c", "a.io/x:1" + digest, "a.io/x" + digest, "b.io/x" + digest}))
}

// kinds of faults, by what the error says.
func faults() map[string]func(w http.ResponseWriter, r *http.Request) {
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", code) }
	}
	return map[string]func(w http.ResponseWriter, r *http.Request){
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusOK)
			panic(http.ErrAbortHandler)
		},
		"401": status(http.StatusUnauthorized), "429": status(http.StatusTooManyRequests), "500": status(http.StatusInternalServerError),
		"other contents": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			_, _ = io.Copy(w, bytes.NewReader(bytes.Repeat([]byte("x"), 6)))
		},
	}
}

// TestEveryFault: whatever goes wrong at whichever request, there is no wrong image under a name, and another run ends
// as if nothing had been.
func TestEveryFault(t *testing.T) {
	for _, side := range []string{"source", "destination"} {
		for kind, fail := range faults() {
			t.Run(side+" "+kind, func(t *testing.T) {
				for at := 1; ; at++ {
					src, dst := registrytest.New(t), registrytest.New(t)
					pinned := src.Image("b/two", "v2", "amd64", "arm64")
					src.Image("a/one", "v1", "amd64", "arm64", "s390x")
					names := []string{src.Host() + "/a/one:v1", src.Host() + "/b/two@" + pinned}
					broken, hit := map[string]*registrytest.Registry{"source": src, "destination": dst}[side], false
					broken.Fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
						if n == at {
							hit = true
							fail(w, r)
						}
						return n == at
					}
					c := Copier{To: Place{Registry: dst.Host()}}
					_, err := copyAll(t, c, names...)
					broken.Lock()
					meant := hit
					broken.Unlock()
					if !meant {
						require.NoError(t, err)
						require.Greater(t, at, 6)
						return
					}
					dst.Lock()
					for tag, sum := range dst.Tags {
						repo, _, _ := strings.Cut(tag, ":")
						require.Equal(t, sum, digest.FromBytes(dst.Blobs[repo+"@"+sum]).String(), "request %d", at)
					}
					dst.Unlock()
					if err != nil {
						assert.Regexp(t, `: run it again|: log in \(docker login |: it has no such image|-replace`, err.Error(), "request %d", at)
					}
					broken.Lock()
					broken.Fault = nil
					broken.Unlock()
					_, err = copyAll(t, c, names...)
					require.NoError(t, err, "request %d", at)
					dst.Lock()
					assert.NotEmpty(t, dst.Tags["a/one:v1"])
					assert.NotNil(t, dst.Blobs["b/two@"+pinned])
					dst.Unlock()
				}
			})
		}
	}
}

func TestLogins(t *testing.T) {
	src, dst := registrytest.New(t), registrytest.New(t)
	src.Image("a", "1", "amd64")
	dst.User, dst.Key = "push", "pa55"
	c := Copier{To: Place{Registry: dst.Host()}}
	_, err := copyAll(t, c, src.Host()+"/a:1")
	require.ErrorContains(t, err, dst.Host()+": ")
	require.ErrorContains(t, err, "log in (docker login "+dst.Host()+"), or write username and password of it below k3s.registries")
	c.Destination = &auth.Client{Credential: func(context.Context, string) (auth.Credential, error) {
		return auth.Credential{Username: "push", Password: "pa55"}, nil
	}}
	_, err = copyAll(t, c, src.Host()+"/a:1")
	require.NoError(t, err)
}

// What does not have its digest gives no last byte, and an early end is an error of the source.
func TestCheckedBody(t *testing.T) {
	want := ocispec.Descriptor{Digest: digest.FromString("contents"), Size: 8}
	for body, says := range map[string]string{"contents": "", "contentz": "has other contents", "cont": "ended after 4 of 8 bytes", "contents and more": ""} {
		b := &checkedBody{ReadCloser: io.NopCloser(strings.NewReader(body)), want: want, sum: sha256.New()}
		got, err := io.ReadAll(io.LimitReader(b, want.Size))
		if says == "" {
			require.NoError(t, err)
			require.Equal(t, "contents", string(got))
			continue
		}
		require.ErrorContains(t, err, says)
		require.ErrorAs(t, err, new(sourceError))
		require.Less(t, len(got), 8)
	}
}
