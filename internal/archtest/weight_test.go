package archtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// brings are the modules of others that come with packages which are to be used alone.
var brings = map[string][]string{
	"secret":           nil,
	"cluster/converge": nil,
	"remote":           nil,
	"remote/ssh":       {"golang.org/x/crypto"},
	"k3s":              {"go.yaml.in/yaml/v2", "sigs.k8s.io/yaml"},
	"cloudinit":        {"github.com/diskfs/go-diskfs", "github.com/djherbis/times", "github.com/goccy/go-yaml", "golang.org/x/sys"},
	"proxmox": {"github.com/buger/goterm", "github.com/diskfs/go-diskfs", "github.com/djherbis/times", "github.com/gorilla/websocket", "github.com/jinzhu/copier",
		"github.com/luthermonson/go-proxmox", "golang.org/x/net", "golang.org/x/sync", "golang.org/x/sys"},
}

// TestWhatComesAlong: a program gets what a package needs, and no Kubernetes.
func TestWhatComesAlong(t *testing.T) {
	for name, want := range brings {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./"+name)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		require.NoError(t, err)
		have := strings.Fields(string(out))
		slices.Sort(have)
		have = slices.DeleteFunc(slices.Compact(have), func(m string) bool { return m+"/" == module })
		assert.ElementsMatch(t, want, have, name)
	}
}

// TestWeight: a program that sets K3s up is 5 MiB in size. Types of Kubernetes would be as
// much again.
func TestWeight(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "k3s")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./testdata/k3s").CombinedOutput()
	require.NoError(t, err, string(out))
	info, err := os.Stat(binary)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(6<<20))
}
