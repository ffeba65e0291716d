package nvidia

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

// The digests are those of the version that is installed: another version needs others in toolkit.sha256.
func TestToolkitFiles(t *testing.T) {
	files := Toolkit{}.Files()
	require.Len(t, files, 4)
	for name, sum := range files {
		require.Regexp(t, `^(lib)?nvidia-[a-z0-9-]+_`+ToolkitVersion+`_amd64\.deb$`, name)
		require.Regexp(t, "^[0-9a-f]{64}$", sum, name)
	}
	require.Len(t, slices.DeleteFunc(strings.Split(strings.TrimSpace(toolkitSums), "\n"), func(line string) bool { return line[0] == '#' }), 4)
	assert.Equal(t, "https://nvidia.github.io/libnvidia-container/stable/deb/amd64/x.deb", ToolkitURL("x.deb"))
	for name, sum := range (Toolkit{Version: "9.0.0-1"}).Files() {
		assert.Empty(t, sum, name)
	}
}

// folderToolkit is one whose folder has packages of no content to speak of.
func folderToolkit(t testing.TB) Toolkit {
	t.Helper()
	toolkit := Toolkit{Folder: t.TempDir(), Digests: map[string]string{}}
	for name := range toolkit.Files() {
		sum := sha256.Sum256([]byte("package " + name))
		toolkit.Digests[name] = hex.EncodeToString(sum[:])
		require.NoError(t, os.WriteFile(filepath.Join(toolkit.Folder, name), []byte("package "+name), 0o600))
	}
	return toolkit
}

// A machine gets the packages of the folder, and asks no repository: it forgets NVIDIA's.
func TestToolkitFromAFolder(t *testing.T) {
	toolkit := folderToolkit(t)
	require.NoError(t, toolkit.CheckFolder())
	g := &gpuMachine{kernel: "6.8.0-85-generic", packages: map[string]string{}, files: map[string]string{toolkitList: toolkitSource}}
	var ran []string
	r := remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
		if cmd.Args[0] != "sh" {
			ran = append(ran, strings.TrimPrefix(strings.Join(cmd.Args, " "), "env DEBIAN_FRONTEND=noninteractive "))
		}
		return g.Run(ctx, cmd)
	})
	require.NoError(t, InstallToolkit(t.Context(), r, toolkit))
	const at = " /var/cache/homelab-toolkit/"
	assert.Equal(t, []string{
		"rm -f " + toolkitList,
		"apt-get --quiet -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends --allow-change-held-packages" +
			at + "libnvidia-container-tools_1.20.1-1_amd64.deb" + at + "libnvidia-container1_1.20.1-1_amd64.deb" +
			at + "nvidia-container-toolkit-base_1.20.1-1_amd64.deb" + at + "nvidia-container-toolkit_1.20.1-1_amd64.deb",
		"apt-mark hold nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1",
		"rm -rf /var/cache/homelab-toolkit/",
	}, ran)
	assert.Empty(t, g.files)
	ran = nil
	require.NoError(t, InstallToolkit(t.Context(), r, toolkit))
	assert.Empty(t, ran)
}

// A folder that lacks a file, or has another under its name, changes nothing on the machine, and the error says what to do.
func TestToolkitFolderIsChecked(t *testing.T) {
	const name = "nvidia-container-toolkit-base_1.20.1-1_amd64.deb"
	for wrong, c := range map[string]struct {
		change func(t *testing.T, k *Toolkit, file string)
		want   string
	}{
		"missing": {func(t *testing.T, _ *Toolkit, file string) { require.NoError(t, os.Remove(file)) }, "/nvidia has no " + name + ": put it there from https://nvidia.github.io/libnvidia-container/stable/deb/amd64/" + name},
		"changed": {func(t *testing.T, _ *Toolkit, file string) {
			require.NoError(t, os.WriteFile(file, []byte("packagf"), 0o600))
		}, name + " is not the file of its checksum: get it again from https://nvidia.github.io/"},
		"a folder": {func(t *testing.T, _ *Toolkit, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Mkdir(file, 0o700))
		}, "is not a file"},
		"unknown": {func(_ *testing.T, k *Toolkit, _ string) { delete(k.Digests, name) }, "the checksum of " + name + " is not known, so it is not installed"},
		"of ours": {func(_ *testing.T, k *Toolkit, _ string) { k.Digests = nil }, "is not the file of its checksum"},
	} {
		t.Run(wrong, func(t *testing.T) {
			toolkit := folderToolkit(t)
			moved := filepath.Join(t.TempDir(), "nvidia")
			require.NoError(t, os.Rename(toolkit.Folder, moved))
			toolkit.Folder = moved
			c.change(t, &toolkit, filepath.Join(moved, name))
			err := toolkit.CheckFolder()
			require.ErrorContains(t, err, c.want)
			assert.True(t, converge.IsPermanent(err))
			g := &gpuMachine{packages: map[string]string{}, files: map[string]string{toolkitList: toolkitSource}}
			err = InstallToolkit(t.Context(), g, toolkit)
			require.ErrorContains(t, err, "install NVIDIA container toolkit 1.20.1-1: ")
			require.ErrorContains(t, err, c.want)
			assert.Empty(t, g.packages)
			assert.Equal(t, map[string]string{toolkitList: toolkitSource}, g.files)
		})
	}
}
