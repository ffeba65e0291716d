package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/share"
)

var fromEnv = regexp.MustCompile(`env:[A-Z_]+`)

// secretsInFiles answers what the new file refers to.
func (u *user) secretsInFiles(t *testing.T) {
	t.Helper()
	u.write(t, "secret", "not-a-secret-of-anybody")
	require.NoError(t, os.Chmod(filepath.Join(u.dir, "secret"), 0o600))
	file, err := os.ReadFile(filepath.Join(u.dir, "cluster.yaml"))
	require.NoError(t, err)
	u.write(t, "cluster.yaml", fromEnv.ReplaceAllString(string(file), "file:secret"))
}

// TestImported: what cluster:import writes from other tools' files comes up in the lab, as it stands, and goes again.
func TestImported(t *testing.T) {
	t.Parallel()
	mine := share.OneOf(t, 3, "files")
	for _, in := range []struct {
		from string
		gpus string
	}{{"tofu-k3s/env/lab.tfvars", "2 of 2"}, {"gpu-cluster", "8 of 8"}, {"talos-map", "1 of 1"}, {"talos-one", "1 of 1"}, {"kubeadm", "1 of 1"}, {"template", ""}} {
		if !mine.Next() {
			continue
		}
		name, _, _ := strings.Cut(in.from, "/")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUserOf(t, labctl.Guests{})
			require.NoError(t, os.Remove(filepath.Join(u.dir, "cluster.yaml")))
			from, err := filepath.Abs("../../../internal/importer/testdata/" + in.from)
			require.NoError(t, err)
			_, said := u.must(t, "cluster:import", "-from="+from, "-lab")
			assert.NotContains(t, said, "deadbeef")
			u.secretsInFiles(t)
			u.must(t, "cluster:up")
			out, _ := u.must(t, "cluster:plan")
			assert.Contains(t, out, "Nothing to change")
			if in.gpus != "" {
				_, said = u.must(t, "gpu:verify")
				assert.Contains(t, said, in.gpus+" GPUs computed")
			}
			u.must(t, "cluster:down", "-yes")
		})
	}
}
