package backup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/secret"
)

func printed(do func(*console.Console)) string {
	var out bytes.Buffer
	do(&console.Console{Talk: &out, Data: &out, Redact: &secret.Redactor{}})
	return out.String()
}

// What is in a backup is told from what was found in it, and what differs from what was counted is named.
func TestDescribe(t *testing.T) {
	is := backup.Contents{Manifest: backup.Manifest{Cluster: "home", Server: "cp1", Snapshot: "s", Objects: map[string]int{"nodes": 2, "secrets": 1, "services": 0}}}
	facts := &backup.Facts{Authority: strings.Repeat("a", 64), Objects: map[string]int{"nodes": 2, "secrets": 1, "services": 0}}
	out := func() string { return printed(func(c *console.Console) { describe(c, is, facts, "me") }) }
	assert.Contains(t, out(), "objects         as counted when it was made: 2 Nodes, 1 Secret\n", "without those of which there are none")
	assert.Contains(t, out(), "not there: Secrets were not encrypted in etcd")
	assert.Contains(t, out(), "the authorities, aaaaaaaaaaaaaaaa…\n")
	facts.SecretsKey, facts.Objects["nodes"] = true, 1
	assert.Contains(t, out(), "key of Secrets  there\n")
	assert.Contains(t, out(), "other than counted when it was made: 1 nodes instead of 2\n")
	is.Objects = nil
	assert.Contains(t, out(), "objects         not counted when it was made\n")

	for n, want := range map[int]string{0: "", 1: "n0", 8: "n0, n1, n2, n3, n4, n5, n6, n7", 9: "n0, n1, n2, n3, n4, n5, n6, n7 and 1 more", 20: "n0, n1, n2, n3, n4, n5, n6, n7 and 12 more"} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		assert.Equal(t, want, shortList(names))
	}
	for n, want := range map[int64]string{1 << 9: "0.5 KiB", 1<<20 - 1: "1024.0 KiB", 1 << 20: "1.0 MiB", 1<<30 - 1: "1024.0 MiB", 3 << 29: "1.5 GiB", 1 << 30: "1.0 GiB"} {
		assert.Equal(t, want, bytesOf(n))
	}
}

// What Kubernetes has read is counted, and what it could not read is named.
func TestDescribeStarted(t *testing.T) {
	has := labctl.ScratchContents{Kubernetes: "v1.36.5", Objects: map[string]int{"secrets": 2, "nodes": 3, "pods": 4}}
	out := func(key bool) string {
		return printed(func(c *console.Console) { describeStarted(c, has, &backup.Facts{SecretsKey: key}) })
	}
	assert.Equal(t, "started         Kubernetes v1.36.5, on loopback: it reads 9 objects of 3 kinds, among them 2 Secrets\n", out(false))
	has.Unread = map[string]string{"y.example.org": "a webhook", "x.example.org": "a webhook"}
	assert.Equal(t, "started         Kubernetes v1.36.5, on loopback: it reads 9 objects of 3 kinds, among them 2 Secrets that the key decrypts\n"+
		"not read        x.example.org, y.example.org: other programs of the cluster are needed for these\n", out(true))
}

// A backup goes into a folder that is there, or to a new file, and never over another file.
func TestDestination(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 3, 1, 12, 34, 56, 0, time.FixedZone("", 3600))
	const name = "home-20260301-113456.backup.age"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for to, want := range map[string]string{"": name, dir: filepath.Join(dir, name), filepath.Join(dir, "new"): filepath.Join(dir, "new")} {
		got, err := destination(to, "home", now)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for to, want := range map[string]string{filepath.Join(dir, "file"): "exists already", dir + "/none/": "no such folder"} {
		_, err := destination(to, "home", now)
		assert.ErrorContains(t, err, want)
	}
}

// A partial file of another run is neither replaced nor deleted, and a folder that is not there is an error.
func TestWriteWholeBesideAnotherRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b")
	require.NoError(t, os.WriteFile(path+".part", []byte("theirs"), 0o600))
	_, err := writeWhole(path, nil)
	require.ErrorContains(t, err, "another backup is being written there")
	theirs, err := os.ReadFile(path + ".part")
	require.NoError(t, err)
	assert.Equal(t, "theirs", string(theirs))
	_, err = writeWhole(filepath.Join(path, "none"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}
