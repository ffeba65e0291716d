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

// leaves may be imported by everybody: they hold the standard library only, and each other.
var leaves = []string{"secret", "cluster/converge/drift", "cluster/converge/progress", "cluster/converge/wait", "cluster/converge/lease", "internal/limit", "proxmox/unit", "internal/printable"}

// allowed says which of the project's packages each may import, beside leaves.
// A package that is not here may import nothing of ours.
var allowed = map[string][]string{
	"secret": nil, "cluster/converge/drift": nil, "cluster/converge/progress": nil, "cluster/converge/wait": nil, "cluster/converge/lease": nil, "internal/limit": nil, "proxmox/unit": nil,

	"internal/sops": {"internal/suggest"},

	"remote":            nil,
	"remote/ssh":        {"remote"},
	"remote/remotetest": {"remote"},
	"cloudinit":         {"internal/iso9660", "internal/datadisk"},
	"internal/iso9660":  nil,
	"internal/datadisk": nil,
	"internal/distro":   nil,
	"internal/schedule": nil,
	"internal/keep":     nil,
	"internal/suggest":  nil,

	"internal/yamlnode":  nil,
	"internal/printable": nil,

	"cluster/converge": nil,
	"kube":             nil,

	"kube/chart":                        {"kube"},
	"kube/helm":                         {"kube", "kube/chart"},
	"kube/addon":                        {"cluster/spec", "internal/offer", "internal/schedule", "kube", "kube/chart", "nvidia"},
	"fleet":                             {"kube", "kube/chart", "remote", "remote/ssh", "fleet/internal/reserved"},
	"fleet/lint":                        {"kube/chart", "kube/helm", "internal/suggest", "internal/yamlnode", "internal/printable", "fleet/internal/reserved", "fleet/lint/internal/hub", "fleet/lint/internal/kustomization", "fleet/lint/internal/manifest"},
	"fleet/lint/internal/hub":           {"fleet/lint/internal/python", "internal/yamlnode"},
	"fleet/lint/internal/kustomization": {},
	"fleet/lint/internal/python":        {},
	"fleet/lint/internal/manifest":      {"internal/suggest", "internal/yamlnode"},
	"fleet/internal/reserved":           nil,
	"jupyterhub":                        {"kube", "kube/chart", "internal/suggest"},

	"proxmox":                   {"internal/distro", "proxmox/internal/api", "proxmox/internal/agent", "proxmox/internal/live", "proxmox/internal/wire", "proxmox/pci", "remote"},
	"proxmox/internal/live":     {"proxmox/internal/api", "proxmox/internal/wire"},
	"proxmox/internal/agent":    {"proxmox/internal/api", "proxmox/internal/live", "proxmox/internal/wire", "remote"},
	"proxmox/pci":               {"proxmox/internal/wire"},
	"proxmox/internal/api":      {"proxmox/internal/wire"},
	"proxmox/internal/fakehost": {"proxmox/internal/api"},
	"proxmox/internal/wire":     nil,
	"k3s":                       {"remote", "internal/suggest"},
	"nvidia":                    {"proxmox/unit", "remote", "internal/distro"},
	"nvidia/check":              {"nvidia"},
	"internal/bench":            {"nvidia", "nvidia/check"},
	"nvidia/mig":                {"nvidia", "remote"},
	"internal/offer":            {"nvidia", "nvidia/mig", "cluster/spec"},

	"sim/pvesim": played("access answer clusterwide config consoles fault firewall guests hostshell hypervisor model nodes pci release request running schema sdn storages world", "sim/guest"),
	"sim/qemu":   {"sim/pvesim", "sim/guest"},
	"sim/guest":  {"sim/guest/internal/apt", "sim/guest/internal/boot", "sim/guest/internal/cloud", "sim/guest/internal/disk", "sim/guest/internal/gpu", "sim/guest/internal/hardware", "sim/guest/internal/image", "sim/guest/internal/internet", "sim/guest/internal/iptables", "sim/guest/internal/k3s", "sim/guest/internal/machine", "sim/guest/internal/netplan", "sim/guest/internal/network", "sim/guest/internal/plane", "sim/guest/internal/programs", "sim/guest/internal/pvehost", "sim/guest/internal/shell", "sim/guest/internal/sshd", "sim/guest/internal/storage", "sim/guest/internal/systemd"},
	"sim/record": {"sim/pvesim"},

	"sim/guest/internal/pvehost":   {"sim/guest/internal/boot", "sim/guest/internal/disk", "sim/guest/internal/getopt", "sim/guest/internal/hardware", "sim/guest/internal/image", "sim/guest/internal/machine", "sim/guest/internal/sshd", "sim/guest/internal/systemd"},
	"sim/guest/internal/programs":  {"sim/guest/internal/disk", "sim/guest/internal/getopt", "sim/guest/internal/internet", "sim/guest/internal/machine"},
	"sim/guest/internal/k3s":       {"sim/guest/internal/disk", "sim/guest/internal/etcdfile", "sim/guest/internal/getopt", "sim/guest/internal/gpu", "sim/guest/internal/image", "sim/guest/internal/iptables", "sim/guest/internal/machine", "sim/guest/internal/network", "sim/guest/internal/plane", "sim/guest/internal/systemd", "sim/guest/internal/yamlvalue"},
	"sim/guest/internal/iptables":  {"sim/guest/internal/getopt", "sim/guest/internal/machine"},
	"sim/guest/internal/boot":      {"sim/guest/internal/cloud", "sim/guest/internal/disk", "sim/guest/internal/getopt", "sim/guest/internal/gpu", "sim/guest/internal/hardware", "sim/guest/internal/machine", "sim/guest/internal/netplan", "sim/guest/internal/storage", "sim/guest/internal/systemd"},
	"sim/guest/internal/hardware":  {"sim/guest/internal/getopt", "sim/guest/internal/gpu", "sim/guest/internal/machine"},
	"sim/guest/internal/cloud":     {"sim/iso", "sim/guest/internal/apt", "sim/guest/internal/disk", "sim/guest/internal/getopt", "sim/guest/internal/image", "sim/guest/internal/machine", "sim/guest/internal/netplan", "sim/guest/internal/sshd", "sim/guest/internal/storage", "sim/guest/internal/yamlvalue"},
	"sim/guest/internal/yamlvalue": nil,
	"sim/guest/internal/sshd":      {"sim/sshserver", "sim/guest/internal/disk", "sim/guest/internal/getopt", "sim/guest/internal/machine", "sim/guest/internal/network", "sim/guest/internal/systemd"},
	"sim/guest/internal/netplan":   {"sim/guest/internal/getopt", "sim/guest/internal/machine", "sim/guest/internal/network"},
	"sim/guest/internal/apt":       {"sim/guest/internal/archive", "sim/guest/internal/disk", "sim/guest/internal/getopt", "sim/guest/internal/gpu", "sim/guest/internal/image", "sim/guest/internal/internet", "sim/guest/internal/machine", "sim/guest/internal/systemd"},
	"sim/guest/internal/systemd":   {"sim/guest/internal/disk", "sim/guest/internal/getopt", "sim/guest/internal/machine", "sim/guest/internal/shell", "sim/guest/internal/storage"},
	"sim/guest/internal/storage":   {"sim/guest/internal/disk", "sim/guest/internal/getopt", "sim/guest/internal/machine"},
	"sim/guest/internal/shell":     {"sim/guest/internal/disk", "sim/guest/internal/machine"},
	"sim/guest/internal/image":     {"sim/guest/internal/archive", "sim/guest/internal/disk", "sim/guest/internal/internet"},
	"sim/guest/internal/gpu":       {"sim/guest/internal/archive", "sim/guest/internal/disk", "sim/guest/internal/getopt", "sim/guest/internal/machine"},
	"sim/guest/internal/machine":   {"sim/guest/internal/disk", "sim/guest/internal/internet", "sim/guest/internal/network", "sim/guest/internal/plane"},
	"sim/guest/internal/plane":     {"sim/guest/internal/disk"},
	"sim/guest/internal/network":   {"sim/guest/internal/disk"},
	"sim/guest/internal/internet":  {"sim/guest/internal/disk"},
	"sim/guest/internal/getopt":    nil,
	"sim/guest/internal/archive":   {"sim/guest/internal/disk"},
	"sim/guest/internal/disk":      nil,
	"sim/guest/internal/etcdfile":  nil,

	"sim/gpuoperator":                nil,
	"sim/iso":                        nil,
	"sim/sshserver":                  nil,
	"sim/kubesim":                    {"sim/gpuoperator", "sim/guest", "sim/kubesim/internal/admission", "sim/kubesim/internal/authority", "sim/kubesim/internal/control", "sim/kubesim/internal/defaults", "sim/kubesim/internal/relay", "sim/kubesim/internal/schedule", "sim/kubesim/internal/served", "sim/kubesim/internal/table"},
	"sim/kubesim/internal/admission": {"sim/kubesim/internal/control"},
	"sim/kubesim/internal/authority": {"sim/guest"},
	"sim/kubesim/internal/control":   nil,
	"sim/kubesim/internal/defaults":  nil,
	"sim/kubesim/internal/relay":     nil,
	"sim/kubesim/internal/schedule":  {"sim/kubesim/internal/control"},
	"sim/kubesim/internal/served":    nil,
	"sim/kubesim/internal/table":     nil,
	"sim/conform":                    {"sim/pvesim", "sim/guest"},

	// Inside the simulated Proxmox VE: what is below first.
	"sim/pvesim/internal/answer":      nil,
	"sim/pvesim/internal/request":     played("answer"),
	"sim/pvesim/internal/schema":      played("answer request"),
	"sim/pvesim/internal/networkfile": played("answer schema"),
	"sim/pvesim/model":                played("schema"),
	"sim/pvesim/internal/fault":       {"sim/guest"},
	"sim/pvesim/internal/hypervisor":  {"sim/guest"},
	"sim/pvesim/internal/world":       played("answer fault hypervisor model networkfile request schema", "sim/guest"),
	"sim/pvesim/internal/release":     played("answer schema world"),
	"sim/pvesim/internal/access":      played("answer model request schema world"),
	"sim/pvesim/internal/nodes":       played("access answer model networkfile release schema world"),
	"sim/pvesim/internal/firewall":    played("answer schema world"),
	"sim/pvesim/internal/sdn":         played("access answer schema world"),
	"sim/pvesim/internal/storages":    played("access answer model nodes release request schema world", "sim/guest"),
	"sim/pvesim/internal/pci":         played("access answer model release schema world", "sim/guest"),
	"sim/pvesim/internal/config":      played("access answer hypervisor model nodes release request schema storages world", "sim/iso"),
	"sim/pvesim/internal/running":     played("access answer config hypervisor model nodes pci release schema storages world", "sim/guest"),
	"sim/pvesim/internal/guests":      played("access answer config firewall model pci release request running schema storages world", "sim/guest"),
	"sim/pvesim/internal/hostshell":   played("answer hypervisor model request world", "sim/guest"),
	"sim/pvesim/internal/consoles":    played("access answer hostshell nodes schema world"),
	"sim/pvesim/internal/clusterwide": played("access answer config nodes pci release schema storages world"),

	"sim/peers": {"sim/guest"},

	"proxmox/preflight": {"nvidia", "proxmox", "proxmox/internal/api", "proxmox/pci", "remote"},

	"cluster/spec":                        {"internal/suggest", "internal/sops", "proxmox/unit"},
	"internal/names":                      {"cloudinit", "cluster/spec"},
	"cluster/inventory":                   {"kube", "proxmox", "cluster/spec"},
	"internal/placement":                  {"cluster/converge", "internal/names", "nvidia", "proxmox", "proxmox/pci", "cluster/spec"},
	"internal/platform":                   {"kube/addon", "fleet", "internal/names", "internal/offer", "jupyterhub", "kube", "kube/chart", "nvidia", "cluster/spec"},
	"cluster/clusterfile/internal/decode": {"internal/printable", "internal/suggest", "internal/yamlnode", "cluster/spec"},
	"cluster/clusterfile":                 {"cluster/clusterfile/internal/decode", "internal/platform", "internal/distro", "internal/names", "internal/printable", "internal/schedule", "internal/suggest", "internal/yamlnode", "jupyterhub", "k3s", "nvidia", "cluster/spec", "internal/backup", "internal/offer", "nvidia/mig", "kube/addon", "kube/chart"},
	"cluster":                             {"cluster/consent", "internal/doctor", "cluster/internal/artifacts", "cluster/internal/firstboot", "internal/leasefile", "cluster/internal/members", "cluster/internal/nodes", "cluster/internal/parts", "cluster/internal/run", "cluster/internal/templates", "cluster/internal/verification", "internal/placement", "internal/platform", "internal/hostprep", "cluster/converge", "fleet", "internal/distro", "internal/names", "internal/printable", "internal/suggest", "jupyterhub", "k3s", "kube", "kube/helm", "nvidia", "proxmox", "proxmox/pci", "proxmox/preflight", "remote", "remote/ssh", "cluster/spec", "internal/backup", "cluster/internal/rescue", "internal/offer", "nvidia/mig", "kube/addon"},
	"cluster/internal/verification":       {"kube/addon", "cluster/internal/benches", "cluster/internal/members", "cluster/internal/nodes", "cluster/internal/run", "cluster/internal/volumes", "internal/platform", "cluster/converge", "internal/offer", "kube", "nvidia", "nvidia/check", "remote", "secret", "cluster/spec"},
	"internal/doctor":                     {"cluster/converge/drift", "fleet", "internal/history", "internal/offer", "k3s", "kube", "nvidia", "nvidia/mig", "proxmox", "remote", "cluster/spec"},
	"internal/hostprep":                   {"internal/leasefile", "cluster/converge", "internal/names", "proxmox", "proxmox/pci", "remote", "cluster/spec"},
	"cluster/internal/volumes":            {"kube/addon", "internal/platform", "kube", "nvidia/check", "cluster/spec"},
	"cluster/internal/kubetest":           {"kube", "sim/guest", "sim/kubesim"},
	"cluster/internal/templates":          {"cloudinit", "cluster/internal/artifacts", "cluster/internal/firstboot", "cluster/internal/nodes", "cluster/internal/run", "internal/placement", "internal/hostprep", "cluster/converge", "internal/distro", "internal/names", "internal/printable", "k3s", "nvidia", "proxmox", "proxmox/pci", "remote", "cluster/spec"},
	"cluster/internal/run":                {"cluster/converge", "proxmox", "cluster/spec"},
	"cluster/internal/parts":              {"kube/addon", "cluster/consent", "cluster/internal/run", "internal/platform", "cluster/converge", "fleet", "internal/printable", "internal/suggest", "kube", "kube/chart", "kube/helm", "nvidia", "remote/ssh", "cluster/spec"},
	"cluster/internal/nodes":              {"cloudinit", "cluster/internal/firstboot", "cluster/internal/run", "cluster/converge", "internal/datadisk", "internal/names", "internal/printable", "proxmox", "remote", "remote/ssh", "cluster/spec"},
	"cluster/internal/members":            {"cluster/consent", "cluster/internal/artifacts", "cluster/internal/nodes", "cluster/internal/run", "cluster/internal/templates", "cluster/converge", "internal/keep", "internal/names", "internal/offer", "internal/printable", "k3s", "kube", "nvidia", "remote", "remote/ssh", "cluster/spec"},
	"internal/leasefile":                  {"remote"},
	"cluster/internal/firstboot":          {"internal/platform", "cloudinit", "cluster/internal/run", "internal/hostprep", "cluster/converge", "internal/distro", "internal/names", "internal/yamlnode", "proxmox", "remote/ssh", "cluster/spec"},
	"cluster/internal/artifacts":          {"cluster/converge", "k3s", "remote", "cluster/spec"},
	"cluster/consent":                     {"cluster/converge", "kube"},
	"internal/backup":                     {"k3s", "remote/ssh"},
	"cluster/internal/benches":            {"cluster/internal/run", "cluster/converge", "kube", "nvidia", "internal/bench", "nvidia/check", "remote", "cluster/spec"},
	"cluster/internal/rescue":             {"internal/backup", "cluster/internal/members", "cluster/internal/nodes", "cluster/internal/run", "cluster/converge", "internal/printable", "k3s", "remote", "remote/ssh", "cluster/spec"},
	"internal/draft":                      {"proxmox", "proxmox/pci", "cluster/spec"},

	"magefiles/targets": {"internal/console", "internal/session", "internal/session/examine", "internal/session/gitops", "internal/suggest", "internal/session/upgrade", "internal/session/backup", "internal/session/report"},

	"internal/session/backup": {"cluster", "internal/backup", "cluster/converge", "internal/console", "internal/labctl", "internal/session", "k3s", "remote/ssh"},
	"cmd/homelab":             {"internal/keep", "internal/session", "magefiles/targets"},
	"cmd/mage":                {},

	"internal/faults":          {"internal/share", "remote"},
	"sim/facts":                nil,
	"internal/share":           nil,
	"internal/labctl":          {"internal/keep"},
	"internal/labneeds":        {"internal/labctl", "nvidia", "cluster/spec"},
	"internal/labmodel":        {"internal/labctl", "sim/pvesim"},
	"internal/archtest":        nil,
	"internal/browsertest":     nil,
	"internal/words":           nil,
	"internal/console":         {"cluster/converge", "internal/printable"},
	"internal/trial":           {"cluster", "cluster/converge", "proxmox/preflight", "cluster/spec"},
	"internal/history":         {"internal/keep"},
	"internal/session/report":  {"cluster", "cluster/inventory", "internal/platform", "cluster/converge", "internal/console", "internal/history", "internal/keep", "internal/session", "jupyterhub", "nvidia/check", "proxmox", "cluster/spec"},
	"internal/session/examine": {"internal/doctor", "cluster/converge", "internal/console", "internal/history", "internal/keep", "internal/session", "remote", "secret"},
	"internal/session":         {"cluster", "cluster/consent", "internal/draft", "internal/placement", "internal/platform", "internal/hostprep", "cluster/clusterfile", "cluster/converge", "examples", "fleet", "fleet/lint", "internal/console", "internal/keep", "internal/labctl", "internal/labneeds", "internal/trial", "jupyterhub", "kube/chart", "kube/helm", "nvidia/check", "proxmox", "proxmox/preflight", "remote", "remote/ssh", "cluster/spec", "internal/offer", "cluster/inventory", "internal/history", "internal/names"},
	"internal/session/gitops":  {"cluster/converge/wait", "fleet", "fleet/lint", "internal/console", "internal/keep", "internal/session", "kube", "kube/chart", "kube/helm"},
	"internal/session/upgrade": {"cluster/clusterfile", "internal/keep", "internal/session", "internal/yamlnode", "k3s"},
}

// played are rooms of the played Proxmox VE, and further packages.
func played(rooms string, others ...string) []string {
	var names []string
	for room := range strings.FieldsSeq(rooms) {
		if room == "model" { // which users of the library write
			names = append(names, "sim/pvesim/model")
			continue
		}
		names = append(names, "sim/pvesim/internal/"+room)
	}
	return append(names, others...)
}

// owners says which packages alone may import a heavy dependency.
var owners = map[string][]string{
	"github.com/luthermonson/go-proxmox": {"proxmox"},
	"golang.org/x/crypto/ssh":            {"remote/ssh", "sim/sshserver", "sim/cmd/pvesim"},
	"k8s.io/client-go":                   {"kube", "sim/kubesim"},
	"github.com/magefile/mage":           {"magefiles", "magefiles/targets"},
	"github.com/spf13/cobra":             {"magefiles/targets", "cmd/homelab"},
	"github.com/spf13/pflag":             {"magefiles/targets"},
	"mvdan.cc/sh":                        {"sim/guest"},
	"github.com/gorilla/websocket":       {"sim/pvesim/internal/consoles"},
	"github.com/pkg/sftp":                {"sim/guest"},
	"helm.sh/helm":                       {"kube/helm"},
	"github.com/go-git/go-git":           {"fleet"},
	"github.com/rancher/fleet":           {"fleet"},
	"github.com/owenrumney/go-sarif":     {"fleet"},
	"github.com/robfig/cron":             {"internal/schedule", "sim/guest", "sim/kubesim/internal/control"},
	"filippo.io/age":                     {"cluster", "internal/backup", "internal/session/backup"},
	"go.etcd.io/bbolt":                   {"sim/guest"},
	"github.com/getsops/sops":            {"internal/sops"},
	"sigs.k8s.io/kustomize":              {"fleet"},
	"k8s.io/component-helpers":           {"jupyterhub", "kube", "sim/kubesim", "sim/kubesim/internal/control", "sim/kubesim/internal/schedule"},
	"k8s.io/klog":                        {"cluster/consent", "jupyterhub", "sim/kubesim", "sim/kubesim/internal/control", "sim/kubesim/internal/schedule"},
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

func TestImportsPointDown(t *testing.T) {
	for _, p := range list(t, "./...", "./sim/...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		if inside(name, "examples") || name == "magefiles" || inside(name, "docs") || inside(name, "sim/cmd") {
			continue // the edge may compose anything
		}
		may, known := allowed[name]
		if !assert.True(t, known, "%s has no row in the table of the architecture", name) {
			continue
		}
		for _, imp := range p.Imports {
			ours, ok := strings.CutPrefix(imp, module)
			if ok && !slices.Contains(leaves, ours) {
				assert.Contains(t, may, ours, "%s must not import %s", name, ours)
			}
		}
	}
}

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

func TestLeavesHoldTheStandardLibraryOnly(t *testing.T) {
	for _, leaf := range leaves {
		for _, p := range list(t, "-deps", "./"+leaf) {
			ours := slices.Contains(leaves, strings.TrimPrefix(p.ImportPath, module))
			assert.True(t, p.Standard || ours, "%s depends on %s", leaf, p.ImportPath)
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

// TestEveryRowIsUsed keeps the table honest.
func TestEveryRowIsUsed(t *testing.T) {
	var have []string
	for _, p := range list(t, "./...", "./sim/...") {
		have = append(have, strings.TrimPrefix(p.ImportPath, module))
	}
	for name := range allowed {
		assert.Contains(t, have, name)
	}
}
