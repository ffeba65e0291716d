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

	s, err := image.For(&spec.Spec{}, spec.Node{}, "", false)
	require.NoError(t, err)
	id, err = s.ID()
	require.NoError(t, err)
	assert.Equal(t, "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515", id)

	url, name, err := s.Disk("v1.13.7")
	require.NoError(t, err)
	assert.Equal(t, "https://factory.talos.dev/image/"+id+"/v1.13.7/nocloud-amd64.qcow2", url)
	assert.Equal(t, "talos-v1.13.7-ce4c980550dd.qcow2", name)
	installer, err := s.Installer("v1.13.7")
	require.NoError(t, err)
	assert.Equal(t, "factory.talos.dev/nocloud-installer/"+id+":v1.13.7", installer)
}

// TestExtensions: a node has what it needs, and nodes that need the same share an image.
func TestExtensions(t *testing.T) {
	gpu := spec.Node{GPUs: spec.GPURequest{Count: 2}}
	longhorn := &spec.Spec{}
	longhorn.Platform.Storage.Longhorn = &spec.Longhorn{}
	none := &spec.Spec{NVIDIA: spec.NVIDIA{Driver: spec.Driver{DriverMode: spec.DriverNone}}}
	for name, c := range map[string]struct {
		s      *spec.Spec
		n      spec.Node
		driver string
		open   bool
		want   string
	}{
		"open":      {&spec.Spec{}, gpu, image.Production, true, "nvidia-container-toolkit-production nvidia-open-gpu-kernel-modules-production qemu-guest-agent"},
		"older":     {&spec.Spec{}, gpu, image.LTS, false, "nonfree-kmod-nvidia-lts nvidia-container-toolkit-lts qemu-guest-agent"},
		"no driver": {none, gpu, "", false, "qemu-guest-agent"},
		"longhorn":  {longhorn, spec.Node{}, "", false, "iscsi-tools qemu-guest-agent util-linux-tools"},
	} {
		s, err := image.For(c.s, c.n, c.driver, c.open)
		require.NoError(t, err, name)
		got := strings.Join(s.Customization.SystemExtensions.Official, " ")
		assert.Equal(t, c.want, strings.ReplaceAll(got, "siderolabs/", ""), name)
	}
	_, err := image.For(&spec.Spec{}, gpu, "580-server", true)
	assert.ErrorContains(t, err, "nvidia.driver.branch")
}

// TestPins: an image is downloaded once, and its checksum stays even if the image changes.
func TestPins(t *testing.T) {
	content, asked := "image", 0
	p := image.NewPins(t.TempDir(), "home")
	p.Get = func(context.Context, string) (io.ReadCloser, error) {
		asked++
		return io.NopCloser(strings.NewReader(content)), nil
	}
	const sum = "6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d" // of "image", by sha256sum
	for range 2 {
		got, err := p.SHA256(t.Context(), "https://one")
		require.NoError(t, err)
		assert.Equal(t, sum, got)
		content = "another"
	}
	assert.Equal(t, 1, asked)
	other, err := p.SHA256(t.Context(), "https://two")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(p.Path), "home.images.sha256"))
	require.NoError(t, err)
	assert.Equal(t, sum+"  https://one\n"+other+"  https://two\n", string(text))
}

// TestPinsFail: nothing is kept of a download that failed, and nothing is downloaded for a file that is not ours.
func TestPinsFail(t *testing.T) {
	p := image.NewPins(t.TempDir(), "home")
	for what, get := range map[string]func(context.Context, string) (io.ReadCloser, error){
		"no route":           func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("no route") },
		"cut off":            func(context.Context, string) (io.ReadCloser, error) { return io.NopCloser(cut{}), nil },
		"the image is empty": func(context.Context, string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil },
	} {
		p.Get = get
		_, err := p.SHA256(t.Context(), "https://one")
		require.ErrorContains(t, err, what)
		assert.NoFileExists(t, p.Path)
	}
	p.Get = nil
	for _, text := range []string{"abc  https://one\n", "\n\n", strings.Repeat("a", 64) + "  https://one\n<html>\n"} {
		require.NoError(t, os.WriteFile(p.Path, []byte(text), 0o644))
		_, err := p.SHA256(t.Context(), "https://three")
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
