package backup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/session"
)

// The recipients of the file can decrypt a backup; without any, nothing is asked of the machines.
func TestRecipientsOfTheFile(t *testing.T) {
	t.Chdir(t.TempDir())
	const text = "name: a\nnetwork: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}\nnodes: {a: {role: server, external: ops@10.0.0.2}}\n"
	backup := func(more string, recipient ...string) error {
		want, err := cluster.Parse("cluster.yaml", []byte(text+more))
		require.NoError(t, err)
		c, err := cluster.New(want, cluster.Backend{Dir: "nowhere"})
		require.NoError(t, err)
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // before it reaches a machine
		return Backup(&session.Session{Spec: want, Cluster: c}, ctx, BackupFlags{Recipient: strings.Join(recipient, ", ")})
	}
	require.ErrorContains(t, backup(""), "who may decrypt the backup? write recipients: [age1…] under k3s.snapshots")
	const recipients = "k3s: {snapshots: {recipients: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]}}\n"
	require.ErrorIs(t, backup(recipients), context.Canceled)
	var invalid *session.Error
	require.ErrorAs(t, backup(recipients, "age1nonsense", "age1other"), &invalid)
	assert.Equal(t, 3, invalid.Code)
	require.ErrorContains(t, invalid, `"age1nonsense" is not a public key`)
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, left)
}

// A file that cannot be written whole is not there at all.
func TestWriteWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b")
	full := errors.New("no space left")
	_, err := writeWhole(path, func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return full })
	require.ErrorIs(t, err, full)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Empty(t, left)
	size, err := writeWhole(path, func(w io.Writer) error { _, err := io.WriteString(w, "whole"); return err })
	require.NoError(t, err)
	require.EqualValues(t, 5, size)
	require.FileExists(t, path)
}
