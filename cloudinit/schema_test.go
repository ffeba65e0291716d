package cloudinit

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/facts"
)

// kept compiles what is kept of one of cloud-init's own schemas. The versions that guests
// have allow the same, and differ in words only.
func kept(t *testing.T, kind string) func(doc any) error {
	t.Helper()
	var text []byte
	for _, version := range []string{"26.1-noble", "26.2"} {
		text = facts.Load(t, filepath.Join("testdata", "facts", kind+".json"), *update, func(full fs.FS) ([]byte, error) {
			raw, err := fs.ReadFile(full, "schemas/cloud-init-"+version+"-schema-"+kind+".json")
			if err != nil {
				return nil, err
			}
			return facts.Schema(raw, false)
		})
	}
	return facts.Fits(t, text)
}

func TestSchema(t *testing.T) {
	cloud, network := kept(t, "cloud-config-v1"), kept(t, "network-config-v2")
	for name, n := range rendered(t) {
		files, err := n.Files()
		require.NoError(t, err)
		assert.NoError(t, cloud(document(t, files["user-data"])), "%s user-data", name)
		if b, ok := files["network-config"]; ok {
			assert.NoError(t, network(document(t, b)), "%s network-config", name)
		}
	}
	// A schema that accepts anything would prove nothing.
	assert.Error(t, cloud(document(t, []byte("runcmd: 3\n"))))
	assert.Error(t, network(document(t, []byte("version: 2\nethernet: {}\n"))))
}

func document(t *testing.T, b []byte) any {
	t.Helper()
	var doc any
	require.NoError(t, sigsyaml.Unmarshal(b, &doc))
	return doc
}

// TestProgram asks the cloud-init program of this machine.
func TestProgram(t *testing.T) {
	if _, err := exec.LookPath("cloud-init"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("cloud-init is not installed: apt-get install cloud-init")
		}
		t.Skip("NOT CHECKED by cloud-init schema: the program is not installed")
	}
	for name, n := range rendered(t) {
		if len(n.UserData.Users) == 0 {
			// Debian 12 has a version whose schema calls "users: []" too short, though
			// its documentation gives it as the way to have no default user. Ubuntu
			// 24.04's schema, checked above, takes it.
			n.UserData.Users = []User{{Name: "nobody-in-particular"}}
		}
		user, err := n.UserData.render()
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "user-data")
		require.NoError(t, os.WriteFile(path, user, 0o600))
		out, err := exec.Command("cloud-init", "schema", "--config-file", path).CombinedOutput()
		assert.NoError(t, err, "%s: %s", name, out)
		assert.NotContains(t, strings.ToLower(string(out)), "deprecated", name)
	}
}
