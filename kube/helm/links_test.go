package helm_test

import (
	"bytes"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

// What lies in the folder of charts is somebody else's work: a link in it must not bring a
// file of this machine's into a chart, and so into the cluster.
func TestLinksStayInTheFolder(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	private := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(private, "id_ed25519"), []byte("a private key"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(private, "web-1.0.0.tgz"), pack(t, "web-1.0.0"), 0o600))
	require.NoError(t, os.CopyFS(filepath.Join(private, "web"), os.DirFS("testdata/charts/web-1.1.0")))
	r := chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.1.0"}
	for name, c := range map[string]struct{ link, to string }{
		"a file":                {"web/templates/key.yaml", filepath.Join(private, "id_ed25519")},
		"a file, relative":      {"web/key", "../../../../../../../../../../etc/hostname"},
		"a folder":              {"web/files", private},
		"the rules":             {"web/.helmignore", filepath.Join(private, "id_ed25519")},
		"the chart":             {"web", filepath.Join(private, "web")},
		"an archive":            {"web-1.1.0.tgz", filepath.Join(private, "web-1.0.0.tgz")},
		"in two steps":          {"web/files/key", "../../out"},
		"what is there already": {"web/out", "../up"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.link != "web" {
				require.NoError(t, os.CopyFS(filepath.Join(dir, "web"), os.DirFS("testdata/charts/web-1.1.0")))
			}
			require.NoError(t, os.Symlink(filepath.Join(private, "id_ed25519"), filepath.Join(dir, "out")))
			require.NoError(t, os.Symlink("..", filepath.Join(dir, "up")))
			path := filepath.Join(dir, c.link)
			if c.link != "web/files" {
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			}
			require.NoError(t, os.Symlink(c.to, path))
			_, err := helm.Source{Folder: dir, Offline: true}.Render(t.Context(), r, caps)
			require.ErrorContains(t, err, path+" is a link that leads out of "+dir)
			assert.NotContains(t, err.Error(), "a private key")
		})
	}
	assert.Empty(t, logged.String())
}

// Links within the folder are followed, and the chart is what Helm makes of it.
func TestLinksWithinTheFolder(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "sources/app"), os.DirFS("testdata/charts/web-1.1.0")))
	require.NoError(t, os.Rename(filepath.Join(dir, "sources/app/templates"), filepath.Join(dir, "sources/templates")))
	require.NoError(t, os.Symlink("../templates", filepath.Join(dir, "sources/app/templates")))
	require.NoError(t, os.Symlink("sources/app", filepath.Join(dir, "web")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sources/app/.helmignore"), []byte("hidden*\nkept/\n"), 0o600))
	require.NoError(t, os.Symlink("/etc/shadow", filepath.Join(dir, "sources/app/hidden.yaml")), "nobody reads it")
	r := chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.1.0"}
	got, err := helm.Source{Folder: dir, Offline: true}.Contents(t.Context(), r)
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(filepath.Join(dir, "plain/web"), os.DirFS("testdata/charts/web-1.1.0")))
	want, err := helm.Source{Folder: filepath.Join(dir, "plain"), Offline: true}.Contents(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, want, got)

	alias := filepath.Join(t.TempDir(), "charts")
	require.NoError(t, os.Symlink(dir, alias))
	_, err = helm.Source{Folder: alias, Offline: true}.Render(t.Context(), r, caps)
	require.NoError(t, err, "the folder itself may be one: its owner has named it")

	require.NoError(t, os.Symlink(".", filepath.Join(dir, "sources/app/again")))
	_, err = helm.Source{Folder: dir, Offline: true}.Render(t.Context(), r, caps)
	require.ErrorContains(t, err, "too many levels of symbolic links")
	assert.Empty(t, logged.String())
}
