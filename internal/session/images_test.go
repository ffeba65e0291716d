package session

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/images"
	"github.com/cps-gpu/homelab/secret"
)

// The images of the example, in three forms, from the file and a folder of charts alone.
func TestImagesList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	require.NoError(t, os.WriteFile(file, examples.EightA100, 0o600))
	list := func(asJSON bool, f ImagesListFlags) (data, talk string) {
		t.Helper()
		var out, said bytes.Buffer
		o := Options{Spec: file, ChartFlags: ChartFlags{Charts: "../../sim/lab/charts", Offline: true},
			Console: &console.Console{Talk: &said, Data: &out, JSON: asJSON, Redact: &secret.Redactor{}}}
		require.NoError(t, ImagesList(t.Context(), o, f))
		return out.String(), said.String()
	}
	data, talk := list(false, ImagesListFlags{})
	require.Regexp(t, `(?m)^nvcr.io/nvidia/k8s-device-plugin:\S+ +device-plugin$`, data)
	require.Contains(t, talk, "not in this list: k3s: its own images, which https://github.com/k3s-io/k3s/releases/download/v1.36.5%2Bk3s1/k3s-images.txt lists")
	names, _ := list(false, ImagesListFlags{Names: true})
	lines, _ := list(true, ImagesListFlags{})
	rows := strings.Split(strings.TrimSpace(lines), "\n")
	require.Len(t, strings.Fields(names), len(rows))
	for i, name := range strings.Fields(names) {
		var image images.Image
		require.NoError(t, json.Unmarshal([]byte(rows[i]), &image))
		require.Equal(t, name, image.Name)
		require.NotEmpty(t, image.For)
	}

	require.NotContains(t, talk, "container toolkit")
	require.NoError(t, os.WriteFile(file, slices.Concat(examples.EightA100, []byte("\nmirror: {registry: \"https://r.lab\", folder: mirror}\n")), 0o600))
	_, talk = list(false, ImagesListFlags{})
	require.Regexp(t, `(?m)^not in this list: nvidia: the packages of its container toolkit, which images:mirror puts into \S+/mirror/nvidia: libnvidia-container-tools_\S+_amd64.deb, libnvidia-container1_\S+, nvidia-container-toolkit\S+, nvidia-container-toolkit\S+$`, talk)
}
