package archtest_test

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/cps-gpu/homelab/"

// allowed are the packages outside the lab that one of the lab's may import; their
// tests, which are users, may import anything.
//
// The simulated host and its guests are of the world, as the lab is. internal/labctl is
// the wire between the lab's process and its user. remotetest is a server of SSH, made
// for tests. Of remote/ssh the lab takes the client's side: the key that the user of the
// bastion logs in with, written and read in the one format that there is.
var allowed = map[string][]string{
	"sim/lab/bastion":          {"remote/ssh", "sim/sshserver"},
	"sim/lab/gpuoperator":      {"converge", "sim/gpuoperator"},
	"sim/lab/hub":              {"converge", "sim/sshserver"},
	"sim/lab/internal/labtest": {"internal/labctl", "internal/share", "sim/qemu"},
	"sim/lab/kueue":            {"converge"},
	"sim/lab/operators":        {"converge", "sim/modelengine", "sim/proxmoxcsi"},
	"sim/lab/traffic":          {"sim/guest"},
	"sim/lab/plane":            {"converge", "sim/dra", "sim/gpuoperator", "sim/guest", "sim/modelengine", "sim/proxmoxcsi"},
	"sim/lab/plane/real":       {"converge", "sim/guest"},
	"sim/lab/plane/simulated":  {"sim/guest", "sim/kubesim"},
	"sim/lab/site":             {"internal/labctl", "internal/labmodel", "sim/pvesim", "sim/guest", "sim/qemu", "remote/ssh"},
}

// beneath is all that of ours is in the lab's programs, whichever way it came. What the
// lab judges (fleet, kube, addon, jupyterhub, k3s, nvidia, cloudinit, proxmox,
// cluster) is not; of converge it takes a pause and a line on a screen, and secret is a string
// that is not printed. What is inside sim/pvesim and sim/guest is their own.
var beneath = []string{
	"converge", "internal/keep", "internal/labctl", "internal/labmodel", "internal/limit", "internal/printable", "internal/share",
	"remote", "remote/ssh", "secret", "sim/dra", "sim/gpuoperator", "sim/guest", "sim/iso", "sim/kubesim",
	"sim/kubesim/internal/admission", "sim/kubesim/internal/authority", "sim/kubesim/internal/control", "sim/kubesim/internal/defaults", "sim/kubesim/internal/relay",
	"sim/kubesim/internal/schedule", "sim/kubesim/internal/served", "sim/kubesim/internal/table",
	"sim/modelengine", "sim/proxmoxcsi", "sim/pvesim", "sim/pvesim/model", "sim/qemu", "sim/sshserver",
}

// list asks go list about the lab's packages, without their tests.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestTheLabImportsNothingThatItJudges(t *testing.T) {
	used := map[string]bool{}
	for _, line := range list(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		words := strings.Fields(line)
		name := strings.TrimPrefix(words[0], module)
		for _, imp := range words[1:] {
			ours, ok := strings.CutPrefix(imp, module)
			if !ok || strings.HasPrefix(ours, "sim/lab/") {
				continue
			}
			assert.Contains(t, allowed[name], ours, "%s must not import %s", name, ours)
			used[name+" "+ours] = true
		}
	}
	for name, all := range allowed {
		for _, ours := range all {
			assert.True(t, used[name+" "+ours], "%s no longer imports %s: take it out of the table", name, ours)
		}
	}
}

func TestNothingJudgedIsBeneathTheLab(t *testing.T) {
	var found []string
	for _, imp := range list(t, "-deps", "-f", "{{.ImportPath}}", "./...") {
		ours, ok := strings.CutPrefix(imp, module)
		if ok && !strings.HasPrefix(ours, "sim/lab/") && !strings.HasPrefix(ours, "sim/pvesim/internal/") && !strings.HasPrefix(ours, "sim/guest/internal/") {
			found = append(found, ours)
		}
	}
	slices.Sort(found)
	assert.Equal(t, beneath, found)
}

// TestTheDefaultLabIsLight: what takes minutes to compile is in the program of sim/lab/kubernetes.
// client-go's factories of informers have all kinds, and were a quarter of what the lab compiles.
func TestTheDefaultLabIsLight(t *testing.T) {
	for _, imp := range list(t, "-deps", "-f", "{{.ImportPath}}", "./cmd/labd") {
		for _, heavy := range []string{"k8s.io/kubernetes/", "go.etcd.io/etcd/", "gvisor.dev/", "k8s.io/client-go/informers"} {
			assert.False(t, strings.HasPrefix(imp, heavy), "labd has %s", imp)
		}
	}
}
