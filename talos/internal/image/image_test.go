package image_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/talos/internal/image"
)

// TestID: the ids are the factory's. The first is in its tests (pkg/schematic) and its manual, the second in
// many people's files for Proxmox.
func TestID(t *testing.T) {
	id, err := image.Schematic{}.ID()
	require.NoError(t, err)
	assert.Equal(t, "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba", id)

	s := image.For(&spec.Spec{}, spec.Node{})
	id, err = s.ID()
	require.NoError(t, err)
	assert.Equal(t, "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515", id)

	url, err := s.Disk("v1.13.7")
	require.NoError(t, err)
	assert.Equal(t, "https://factory.talos.dev/image/"+id+"/v1.13.7/nocloud-amd64.qcow2", url)
	installer, err := s.Installer("v1.13.7")
	require.NoError(t, err)
	assert.Equal(t, "factory.talos.dev/nocloud-installer/"+id+":v1.13.7", installer)
}

// TestExtensions: a node has what it needs, and nodes that need the same share an image.
func TestExtensions(t *testing.T) {
	gpu := spec.Node{GPUs: spec.GPURequest{Count: 2}}
	longhorn := &spec.Spec{}
	longhorn.Platform.Storage.Longhorn = &spec.Longhorn{}
	with := func(driver string) *spec.Spec { return &spec.Spec{Talos: spec.TalosLinux{Driver: driver}} }
	for name, c := range map[string]struct {
		s    *spec.Spec
		n    spec.Node
		want string
	}{
		"production": {with(spec.TalosProduction), gpu, "nvidia-container-toolkit-production nvidia-open-gpu-kernel-modules-production qemu-guest-agent"},
		"lts":        {with(spec.TalosLTS), gpu, "nvidia-container-toolkit-lts nvidia-open-gpu-kernel-modules-lts qemu-guest-agent"},
		"no GPU":     {with(spec.TalosLTS), spec.Node{}, "qemu-guest-agent"},
		"longhorn":   {longhorn, spec.Node{}, "iscsi-tools qemu-guest-agent util-linux-tools"},
	} {
		got := strings.Join(image.For(c.s, c.n).Customization.SystemExtensions.Official, " ")
		assert.Equal(t, c.want, strings.ReplaceAll(got, "siderolabs/", ""), name)
	}
}

// TestPins: an image is downloaded once, and its checksum stays even if the image changes.
func TestPins(t *testing.T) {
	content, asked := "image", 0
	p := image.NewPins(t.TempDir(), "home")
	var posted []string
	p.Post = func(_ context.Context, url string, body []byte) error {
		posted = append(posted, url+" "+string(body))
		return nil
	}
	p.Get = func(context.Context, string) (io.ReadCloser, error) {
		asked++
		return io.NopCloser(strings.NewReader(content)), nil
	}
	const sum = "6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d" // of "image", by sha256sum
	for range 2 {
		got, err := p.SHA256(t.Context(), image.Schematic{}, "https://one")
		require.NoError(t, err)
		assert.Equal(t, sum, got)
		content = "another"
	}
	assert.Equal(t, 1, asked)
	assert.Equal(t, []string{"https://factory.talos.dev/schematics customization: {}\n"}, posted)
	other, err := p.SHA256(t.Context(), image.Schematic{}, "https://two")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(p.Path), "home.images.sha256"))
	require.NoError(t, err)
	assert.Equal(t, sum+"  https://one\n"+other+"  https://two\n", string(text))
}

// TestPinsFail: nothing is kept of a download that failed, and nothing is downloaded for a file that is not ours.
func TestPinsFail(t *testing.T) {
	p := image.NewPins(t.TempDir(), "home")
	p.Post = func(context.Context, string, []byte) error { return nil }
	for what, get := range map[string]func(context.Context, string) (io.ReadCloser, error){
		"no route":           func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("no route") },
		"cut off":            func(context.Context, string) (io.ReadCloser, error) { return io.NopCloser(cut{}), nil },
		"the image is empty": func(context.Context, string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil },
	} {
		p.Get = get
		_, err := p.SHA256(t.Context(), image.Schematic{}, "https://one")
		require.ErrorContains(t, err, what)
		assert.NoFileExists(t, p.Path)
	}
	p.Get = nil
	for _, text := range []string{"abc  https://one\n", "\n\n", strings.Repeat("a", 64) + "  https://one\n<html>\n"} {
		require.NoError(t, os.WriteFile(p.Path, []byte(text), 0o644))
		_, err := p.SHA256(t.Context(), image.Schematic{}, "https://three")
		assert.ErrorContains(t, err, "bring back the file from Git")
	}
}

type cut struct{}

func (cut) Read([]byte) (int, error) { return 0, errors.New("cut off") }

// TestGet: what the factory does not have is an error in words, not an image.
func TestGet(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/there" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
	}))
	defer s.Close()
	_, err := image.Get(t.Context(), s.URL+"/gone")
	require.ErrorContains(t, err, "404 Not Found")
	body, err := image.Get(t.Context(), s.URL+"/there")
	require.NoError(t, err)
	_, err = io.ReadAll(body)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.NoError(t, body.Close())
}
