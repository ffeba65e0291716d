package images_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/internal/images"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/sim/facts"
)

var update = flag.Bool("update", false, "write testdata")

const files = "../../cluster/clusterfile/testdata/good"

// TestNewList: the lists of two files, with the lab's charts.
func TestNewList(t *testing.T) {
	for _, name := range []string{"platform", "operator", "models"} {
		s, err := clusterfile.Load(filepath.Join(files, name+".yaml"))
		require.NoError(t, err)
		s.Platform.Storage.CephFS, s.Platform.Charts.Folder = nil, "" // the lab has no such chart
		list, err := images.NewList(t.Context(), s, helm.Source{Folder: "../../sim/lab/charts", Offline: true, Cache: t.TempDir()}, []string{"docker.io/rancher/mirrored-pause:3.10.2"})
		require.NoError(t, err)
		var b strings.Builder
		for _, i := range list.Images {
			fmt.Fprintf(&b, "%s: %s\n", i.Name, strings.Join(i.For, ", "))
			assert.Equal(t, images.Digest(i.Name), i.Digest)
		}
		for _, more := range list.Unlisted {
			fmt.Fprintf(&b, "%s\n", more)
		}
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		assert.Equal(t, string(want), b.String(), "go test ./internal/images -update")
	}
}

// TestRealChartsHideNoImage: whatever in the objects of real charts looks like an image is in the list, or is known.
func TestRealChartsHideNoImage(t *testing.T) {
	source := helm.Source{Folder: facts.Charts(t, ""), AnyVersion: true, Offline: true, Cache: t.TempDir()}
	loose := regexp.MustCompile(`[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::[0-9]+)?/[a-z0-9._/-]*[a-z0-9]:v?[0-9][A-Za-z0-9_.-]*(?:@sha256:[a-f0-9]+)?`)
	url := regexp.MustCompile(`(?:[a-z]+:/|\.)/\S+`)
	found, err := filepath.Glob(files + "/*.yaml")
	require.NoError(t, err)
	for _, file := range found {
		s, err := clusterfile.Load(file)
		require.NoError(t, err)
		s.Platform.Charts.Folder = ""
		list, _ := images.NewList(t.Context(), s, source, nil) // without charts that the folder lacks
		var names []string
		for _, i := range list.Images {
			names = append(names, i.Name)
		}
		recipes, err := platform.Pieces(s, false)
		require.NoError(t, err)
		for _, p := range recipes {
			if p.Release == nil {
				continue
			}
			text, err := source.RenderWhole(t.Context(), *p.Release, helm.Capabilities{Kubernetes: s.K3s.Version, APIs: p.APIs})
			if err != nil {
				t.Log(err)
				continue
			}
			for _, document := range strings.Split(string(text), "\n---") {
				if strings.Contains(document, "kind: CustomResourceDefinition") {
					continue
				}
				for _, name := range loose.FindAllString(url.ReplaceAllString(document, ""), -1) {
					assert.True(t, slices.Contains(names, images.Full(name)), "%s: %s: %s is not in the list", filepath.Base(file), p.Name, name)
				}
			}
		}
	}
}

func TestImagesOfK3s(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"a list":       {200, "docker.io/rancher/klipper-lb:v0.4.17\ndocker.io/rancher/mirrored-pause:3.10.2\n", ""},
		"no release":   {404, "not found", "/v1.36.5%2Bk3s1/k3s-images.txt: 404 Not Found: is there such a release?"},
		"another page": {200, "<html>log in</html>", "is not a list of images: a proxy may have answered instead"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "/v1.36.5%2Bk3s1/k3s-images.txt", r.URL.EscapedPath())
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			got, err := images.OfK3s(t.Context(), server.Client(), k3s.Release{Version: "v1.36.5+k3s1", BaseURL: server.URL})
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, strings.Fields(c.body), got)
			server.Close()
			_, err = images.OfK3s(t.Context(), server.Client(), k3s.Release{Version: "v1.36.5+k3s1", BaseURL: server.URL})
			require.ErrorContains(t, err, "-offline leaves them out")
		})
	}
}
