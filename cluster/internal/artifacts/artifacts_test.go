package artifacts

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
)

// What is copied to the nodes lies in the folder that the file names: a link in it brings
// nothing else of this machine there.
func TestAirgapLinksStayInTheFolder(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	s := &spec.Spec{K3s: spec.K3s{Version: "v1.36.5+k3s1", AirgapDir: dir}}
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "key"), []byte("a private key"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k3s-v1.36"), []byte("a program"), 0o600))
	require.NoError(t, os.Symlink("k3s-v1.36", filepath.Join(dir, "k3s")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k3s-airgap-images-amd64.tar.zst"), nil, 0o600))
	for _, to := range []string{filepath.Join(elsewhere, "key"), "../" + filepath.Base(elsewhere) + "/key"} {
		link := filepath.Join(dir, "sha256sum-amd64.txt")
		require.NoError(t, os.Symlink(to, link))
		err := Check(s)
		require.EqualError(t, err, link+" is a link out of the folder "+dir+" (k3s.airgap): put the file itself there")
		require.True(t, converge.IsPermanent(err))
		require.Error(t, copyTo(t.Context(), nil, dir, "sha256sum-amd64.txt", "/x"))
		require.NoError(t, os.Remove(link))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sha256sum-amd64.txt"), nil, 0o600))
	require.NoError(t, Check(s))
}

// A program names its version, with others that it can replace; one that names only others is another's.
func TestVersionInAProgram(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	const want, old = "v1.36.5+k3s1", "v1.35.1+k3s2"
	far := strings.Repeat("x", 1<<20)
	for text, other := range map[string]string{
		"": "", "no version": "", want: "", old: old, want + " " + old: "", old + " " + want: "", old + far + want: "", want + far + old: "", far[30:] + want: "", far[30:] + old: old,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "k3s"), []byte(text), 0o600))
		sum, got, err := digest(t.Context(), root, "k3s", want)
		require.NoError(t, err)
		require.Equal(t, other, got)
		require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(text))), sum)
	}
	_, _, err = digest(t.Context(), root, "nothing", want)
	require.Error(t, err)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k3s"), []byte(far+far), 0o600))
	_, _, err = digest(stopped, root, "k3s", want)
	require.ErrorIs(t, err, context.Canceled)
}
