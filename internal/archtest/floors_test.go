package archtest_test

import (
	"flag"
	"fmt"
	"go/doc"
	"html"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the floor plan of docs/architecture.md")

// rooms are the packages by what they are for, from the street to the cellar.
// NAME/* are all in a folder.
func rooms() []floor {
	return []floor{
		{"Commands", []string{"magefiles/targets", "cmd/homelab", "cmd/mage", "internal/session", "internal/session/examine", "internal/session/gitops", "internal/console", "internal/trial", "internal/session/upgrade", "internal/session/backup", "internal/session/report", "internal/session/results", "internal/zone"}},
		{"The whole", []string{"cluster", "internal/hostprep", "cluster/doctor", "cluster/conformance", "internal/leasefile", "internal/draft", "internal/importer", "cluster/clusterfile", "internal/placement", "internal/platform", "internal/images", "internal/names", "internal/labneeds", "cluster/backup", "cluster/internal/*", "cluster/clusterfile/internal/*"}},
		{"Parts of a platform", []string{"kube/addon", "kube/addon/internal/gatewayapi", "fleet", "fleet/lint", "fleet/lint/internal/gitops", "fleet/lint/internal/hub", "fleet/lint/internal/kustomization", "fleet/lint/internal/manifest", "fleet/lint/internal/python", "fleet/internal/reserved", "jupyterhub"}},
		{"Played worlds", []string{"sim/pvesim", "sim/qemu", "sim/record", "sim/conform", "sim/cmd/pvesim", "sim/cmd/peers", "internal/labctl", "internal/labmodel"}},
		{"Played Proxmox VE", []string{
			"sim/pvesim/internal/clusterwide", "sim/pvesim/internal/consoles", "sim/pvesim/internal/hostshell", "sim/pvesim/internal/windows", "sim/pvesim/internal/guests", "sim/pvesim/internal/running",
			"sim/pvesim/internal/config", "sim/pvesim/internal/pci", "sim/pvesim/internal/storages", "sim/pvesim/internal/sdn", "sim/pvesim/internal/firewall",
			"sim/pvesim/internal/nodes", "sim/pvesim/internal/access", "sim/pvesim/internal/release", "sim/pvesim/internal/world", "sim/pvesim/internal/hypervisor",
			"sim/pvesim/internal/fault", "sim/pvesim/model", "sim/pvesim/internal/networkfile", "sim/pvesim/internal/schema", "sim/pvesim/internal/request",
			"sim/pvesim/internal/answer",
		}},
		{"Played machines", []string{"sim/guest", "sim/harvestersim", "sim/kubesim", "sim/gpuoperator", "sim/dra", "sim/modelengine", "sim/proxmoxcsi", "sim/iso", "sim/sshserver", "sim/facts",
			"sim/kubesim/internal/admission", "sim/kubesim/internal/schedule", "sim/kubesim/internal/authority", "sim/kubesim/internal/control", "sim/kubesim/internal/defaults",
			"sim/kubesim/internal/relay", "sim/kubesim/internal/served", "sim/kubesim/internal/table",
			"sim/guest/internal/pvehost", "sim/guest/internal/programs", "sim/guest/internal/k3s", "sim/guest/internal/kubeadm", "sim/guest/internal/etcdfile", "sim/guest/internal/iptables", "sim/guest/internal/boot",
			"sim/guest/internal/hardware", "sim/guest/internal/cloud", "sim/guest/internal/yamlvalue", "sim/guest/internal/sshd", "sim/guest/internal/netplan",
			"sim/guest/internal/apt", "sim/guest/internal/systemd", "sim/guest/internal/storage", "sim/guest/internal/shell", "sim/guest/internal/image",
			"sim/guest/internal/gpu", "sim/guest/internal/machine", "sim/guest/internal/plane", "sim/guest/internal/network", "sim/guest/internal/internet",
			"sim/guest/internal/getopt", "sim/guest/internal/archive", "sim/guest/internal/disk"}},
		{"Kubernetes", []string{"harvester", "kube", "kube/chart", "kube/helm", "kube/verify", "internal/modelserver", "internal/mirror", "internal/mirror/registrytest"}},
		{"Machines", []string{"proxmox", "proxmox/pci", "proxmox/internal/api", "proxmox/internal/agent", "proxmox/internal/live", "proxmox/internal/wire", "proxmox/internal/fakehost", "proxmox/preflight", "cloudinit", "k3s", "kubeadm", "internal/kubeconfig", "internal/distribution", "nvidia", "nvidia/check", "internal/bench", "remote", "remote/ssh", "remote/remotetest", "internal/faults", "nvidia/mig", "llm", "internal/offer", "internal/serving", "internal/apt"}},
		{"What is wanted", []string{"cluster/spec"}},
		{"The engine", []string{"converge", "secret", "internal/sops", "proxmox/unit"}},
		{"Tools of all", []string{"internal/distro", "internal/schedule", "internal/keep", "internal/limit", "internal/sums", "internal/skew", "internal/kubevip", "internal/suggest", "internal/datadisk", "internal/iso9660", "internal/history",
			"internal/yamlnode", "internal/printable", "internal/oidc", "internal/share", "internal/browsertest", "internal/archtest", "internal/words", "internal/pages"}},
	}
}

type floor struct {
	name  string
	rooms []string
}

// floorsOf are the floors with the names of all rooms.
func floorsOf(pkgs map[string]pkg) []floor {
	all := rooms()
	for i, f := range all {
		var named []string
		for _, room := range f.rooms {
			folder, every := strings.CutSuffix(room, "/*")
			if !every {
				named = append(named, room)
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(pkgs)) {
				if strings.HasPrefix(name, folder+"/") {
					named = append(named, name)
				}
			}
		}
		all[i].rooms = named
	}
	return all
}

// TestFloorPlan: the picture and the table of docs/architecture.md are the code's.
func TestFloorPlan(t *testing.T) {
	pkgs := map[string]pkg{}
	for _, p := range list(t, "./...", "./sim/...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		if !inside(name, "examples") && name != "magefiles" && !inside(name, "docs") {
			pkgs[name] = p
		}
	}
	floors := floorsOf(pkgs)
	var placed []string
	for _, f := range floors {
		placed = append(placed, f.rooms...)
	}
	for at, f := range floors {
		for _, name := range f.rooms {
			for _, imp := range pkgs[name].Imports {
				on := slices.IndexFunc(floors, func(f floor) bool { return slices.Contains(f.rooms, strings.TrimPrefix(imp, module)) })
				assert.True(t, on < 0 || on >= at, "%s imports %s, from a floor above it", name, imp)
			}
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(pkgs)), placed, "each package is on one floor")
	same(t, "../../docs/pictures/floors.svg", func(string) string { return picture(floors) })
	same(t, "../../docs/architecture.md", func(now string) string {
		const begin, end = "<!-- rooms -->\n", "<!-- end of rooms -->"
		before, rest, ok := strings.Cut(now, begin)
		require.True(t, ok)
		_, after, ok := strings.Cut(rest, end)
		require.True(t, ok)
		return before + begin + table(pkgs, floors) + end + after
	})
}

// same compares a file with what it should be, or writes it with -update.
func same(t *testing.T, file string, want func(now string) string) {
	t.Helper()
	now, err := os.ReadFile(file)
	if !*update || !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	text := want(string(now))
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return
	}
	assert.Equal(t, text, string(now), "%s is not what the code is: go test ./internal/archtest -update", file)
}

// table says what each package is that others may import.
func table(pkgs map[string]pkg, floors []floor) string {
	var b strings.Builder
	for _, f := range floors {
		var rows strings.Builder
		for _, name := range f.rooms {
			p, ok := pkgs[name]
			if !ok || slices.Contains(strings.Split(name, "/"), "internal") {
				continue
			}
			what := new(doc.Package).Synopsis(p.Doc)
			what = strings.TrimPrefix(strings.TrimPrefix(what, "Package "+p.Name+" "), "Command "+name[strings.LastIndex(name, "/")+1:]+" ")
			if first, _, ok := strings.Cut(what, ": "); ok && len(first) > len("is for tests") {
				what = first
			}
			what = strings.TrimSuffix(what, ".")
			fmt.Fprintf(&rows, "| `%s` | %s |\n", name, strings.ReplaceAll(strings.TrimPrefix(what, "is "), "|", "\\|"))
		}
		if rows.Len() > 0 {
			fmt.Fprintf(&b, "\n### %s\n\n| package | |\n|---|---|\n%s", f.name, &rows)
		}
	}
	return b.String() + "\n"
}

// picture draws the floors, the street on top.
func picture(floors []floor) string {
	const width, room, high, left, gap = 1000, 150, 34, 180, 10
	perRow := (width - left) / (room + gap)
	var b strings.Builder
	y := 10
	for i, f := range floors {
		rows := (len(f.rooms) + perRow - 1) / perRow
		height := rows*(high+gap) + gap
		fmt.Fprintf(&b, `<rect x="4" y="%d" width="%d" height="%d" rx="8" class="f%d"/>`+"\n", y, width-8, height, i%2)
		fmt.Fprintf(&b, `<text x="18" y="%d" class="n">%s</text>`+"\n", y+height/2+5, html.EscapeString(f.name))
		for k, r := range f.rooms {
			x, at := left+k%perRow*(room+gap), y+gap+k/perRow*(high+gap)
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="5" class="r"/><text x="%d" y="%d" class="t">%s</text>`+"\n",
				x, at, room, high, x+room/2, at+22, html.EscapeString(short(r)))
		}
		y += height + 6
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t" font-family="system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif">
<title id="t">The packages, floor by floor: each imports only from its own floor and below</title>
<style>.f0{fill:#eef3f8}.f1{fill:#f6f2ea}.r{fill:#fff;stroke:#9aa8b5}.n{font-size:14px;font-weight:600;fill:#24313d}.t{font-size:12px;text-anchor:middle;fill:#24313d}
@media (prefers-color-scheme:dark){.f0{fill:#1d2730}.f1{fill:#26221b}.r{fill:#10161b;stroke:#5b6975}.n,.t{fill:#dfe7ee}}</style>
%s</svg>
`, width, y+4, width, y+4, b.String())
}

// short is a package's name as it fits into its room.
func short(name string) string { return strings.Replace(name, "internal/", "", 1) }
