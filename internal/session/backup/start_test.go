package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/session"
)

// What Kubernetes does not read of a snapshot is told, and what it made itself is not.
func TestUnlike(t *testing.T) {
	facts := &backup.Facts{Objects: map[string]int{"nodes": 2, "secrets": 3, "services": 1}}
	has := map[string]int{"nodes": 2, "secrets": 3, "services": 2, "things.example.org": 1}
	require.NoError(t, countDifferences(labctl.ScratchContents{Objects: has, Unread: map[string]string{"things.example.org": "a webhook"}}, facts))

	err := countDifferences(labctl.ScratchContents{Objects: map[string]int{"nodes": 1, "services": 1}, Unread: map[string]string{
		"secrets": "unable to transform key", "configmaps": "no kind is registered"}}, facts)
	for _, want := range []string{"of 2 nodes Kubernetes reads 1", "the Secrets cannot be decrypted with the key in the snapshot: unable to transform key",
		"configmaps cannot be read: no kind is registered"} {
		require.ErrorContains(t, err, want)
	}
}

// A snapshot of a later Kubernetes is refused before anything is built or started.
func TestStartOfALaterVersion(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	snapshot := []byte("a snapshot")
	sum := sha256.Sum256(snapshot)
	var file bytes.Buffer
	is := backup.Contents{Manifest: backup.Manifest{K3s: "v1.99.1+k3s1", Snapshot: "s", Size: int64(len(snapshot)), SHA256: hex.EncodeToString(sum[:])}}
	_, err = backup.Write(&file, []age.Recipient{key.Recipient()}, nil, is, bytes.NewReader(snapshot))
	require.NoError(t, err)
	open := func() (*backup.Reader, io.Closer, error) {
		r, err := backup.Open(bytes.NewReader(file.Bytes()), key)
		return r, io.NopCloser(nil), err
	}
	_, err = startFromBackup(t.Context(), session.Options{}, open, &backup.Facts{})
	require.ErrorContains(t, err, "the snapshot is of K3s v1.99.1+k3s1, and homelab brings Kubernetes "+labctl.KubernetesVersion)
	assert.NoDirExists(t, ".lab")
}
