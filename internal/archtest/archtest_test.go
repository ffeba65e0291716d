package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/cps-gpu/homelab/"

// owners says which packages alone may import a heavy dependency.
var owners = map[string][]string{
	"github.com/luthermonson/go-proxmox": {"proxmox"},
	"golang.org/x/crypto/ssh":            {"remote/ssh", "sim/sshserver", "sim/cmd/pvesim"},
	"k8s.io/client-go":                   {"kube", "sim/kubesim", "sim/harvestersim"},
	"github.com/magefile/mage":           {"magefiles", "magefiles/targets"},
	"github.com/spf13/cobra":             {"magefiles/targets", "cmd/homelab"},
	"github.com/spf13/pflag":             {"magefiles/targets"},
	"mvdan.cc/sh":                        {"sim/guest"},
	"github.com/gorilla/websocket":       {"sim/pvesim/internal/consoles"},
	"helm.sh/helm":                       {"kube/helm"},
	"github.com/go-git/go-git":           {"fleet"},
	"github.com/rancher/fleet":           {"fleet"},
	"github.com/owenrumney/go-sarif":     {"fleet"},
	"github.com/robfig/cron":             {"internal/schedule", "sim/guest", "sim/kubesim/internal/control"},
	"filippo.io/age":                     {"cluster", "cluster/backup", "internal/session/backup"},
	"go.etcd.io/bbolt":                   {"sim/guest"},
	"github.com/getsops/sops":            {"internal/sops"},
	"sigs.k8s.io/kustomize":              {"fleet"},
	"k8s.io/component-helpers":           {"jupyterhub", "kube", "sim/kubesim", "sim/kubesim/internal/control", "sim/kubesim/internal/schedule"},
	"github.com/hashicorp/hcl":           {"internal/importer"},
	"github.com/zclconf/go-cty":          {"internal/importer"},
	"k8s.io/klog":                        {"cluster/internal/workload", "jupyterhub", "sim/kubesim", "sim/kubesim/internal/control", "sim/kubesim/internal/schedule"},
}

type pkg struct {
	ImportPath string
	Name, Doc  string
	Imports    []string
	Standard   bool
}

func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Name,Doc,Imports,Standard"}, args...)...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else {
			require.NoError(t, err)
		}
		pkgs = append(pkgs, p)
	}
}

func inside(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func TestHeavyDependenciesHaveOneOwner(t *testing.T) {
	for _, p := range list(t, "./...", "./sim/...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			for dep, own := range owners {
				if inside(imp, dep) && !slices.ContainsFunc(own, func(o string) bool { return inside(name, o) }) {
					t.Errorf("%s imports %s, which belongs to %v", name, imp, own)
				}
			}
		}
	}
}

// TestSimulatorsStandOnNothingTheyJudge: a misreading of the world in proxmox, cloudinit or kube
// that its simulator shared would be called right.
func TestSimulatorsStandOnNothingTheyJudge(t *testing.T) {
	for _, p := range list(t, "-deps", "./sim/...") {
		if ours, ok := strings.CutPrefix(p.ImportPath, module); ok {
			assert.True(t, inside(ours, "sim"), "a simulator imports %s", ours)
		}
	}
}

// TestTheProductIsBuiltWithoutItsLab: the lab is another program, and users build no simulator,
// in a clone as little as elsewhere.
func TestTheProductIsBuiltWithoutItsLab(t *testing.T) {
	// -e: with the tag, go list takes go-proxmox' own magefile for a part of it.
	magefile := list(t, "-e", "-tags=mage", "-deps", "./magefiles")
	require.Greater(t, len(magefile), 100)
	for _, p := range append(magefile, list(t, "-deps", "./magefiles/targets", "./cmd/homelab")...) {
		name := strings.TrimPrefix(p.ImportPath, module)
		assert.False(t, inside(name, "sim") || inside(name, "internal/labmodel"), "users build %s", name)
	}
}
