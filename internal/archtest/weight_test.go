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
	"secret":     nil,
	"llm":        nil,
	"converge":   nil,
	"remote":     nil,
	"remote/ssh": {"golang.org/x/crypto"},
	"k3s":        {"go.yaml.in/yaml/v2", "sigs.k8s.io/yaml"},
	"cloudinit":  {"github.com/diskfs/go-diskfs", "github.com/djherbis/times", "github.com/goccy/go-yaml", "golang.org/x/sys"},
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

// weighs are the most MiB of a program, built with -s -w, that uses a package as testdata/weigh has it.
var weighs = map[string]float64{
	"k3s": 4,
	// Of that 6.1 is net/http with TLS, encoding/json and regexp.
	"proxmox":     6.8,
	"fleet":       24, // 33 with every kind of client-go's scheme
	"clusterfile": 7,  // with llm and its table of models
	"jupyterhub":  11,
	// Helm's template engine alone is 35: chartutil brings client-go's discovery and scheme with every kind.
	"cluster": 52.5,
}

// TestWeight: what a program carries for the sake of a package.
func TestWeight(t *testing.T) {
	for name, most := range weighs {
		binary := filepath.Join(t.TempDir(), name)
		out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", binary, "./testdata/weigh/"+name).CombinedOutput()
		require.NoError(t, err, string(out))
		info, err := os.Stat(binary)
		require.NoError(t, err)
		is := float64(info.Size()) / (1 << 20)
		assert.LessOrEqual(t, is, most, name)
		t.Logf("%s: %.1f MiB", name, is)
	}
}

// TestWithoutKubernetes: who reads a file, or looks after drivers, carries none of Kubernetes' types.
func TestWithoutKubernetes(t *testing.T) {
	for _, name := range []string{"cluster/clusterfile", "nvidia", "nvidia/mig", "internal/offer"} {
		for _, p := range list(t, "-deps", "./"+name) {
			assert.False(t, strings.HasPrefix(p.ImportPath, "k8s.io/"), "%s imports %s", name, p.ImportPath)
		}
	}
}

// TestWithoutHelm: who makes parts, or writes them to Git, does not carry Helm.
func TestWithoutHelm(t *testing.T) {
	for _, name := range []string{"kube/chart", "kube/addon", "fleet"} {
		for _, p := range list(t, "-deps", "./"+name) {
			assert.False(t, strings.HasPrefix(p.ImportPath, "helm.sh/"), "%s imports %s", name, p.ImportPath)
		}
	}
}
