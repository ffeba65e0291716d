package draft_test

import (
	"flag"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/draft"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

var update = flag.Bool("update", false, "write the golden files")

// discover looks at a simulated site.
func discover(t testing.TB, model pvesim.Model) draft.Inventory {
	t.Helper()
	sim := pvesim.New(model, pvesim.Options{})
	defer sim.Close()
	id, value := sim.Token()
	c, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client()})
	require.NoError(t, err)
	f, err := draft.Discover(t.Context(), c)
	require.NoError(t, err)
	return f
}

// answered fills in what is not proposed.
func answered(f draft.Inventory) draft.Answers {
	a := f.Defaults()
	a.Endpoint, a.TokenID, a.Secret = "10.0.0.5", "homelab@pve!cluster", "env:PROXMOX_TOKEN_SECRET"
	a.Fingerprint = strings.TrimSuffix(strings.Repeat("7e:", 32), ":")
	return a
}

// hosts are those of docs/hosts.md, by name.
func hosts(t testing.TB) map[string]func() pvesim.Model {
	t.Helper()
	out := map[string]func() pvesim.Model{}
	files, err := filepath.Glob("../../examples/hosts/*/site.yaml")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		m, err := pvesim.ParseModel(file, text)
		require.NoError(t, err)
		out[filepath.Base(filepath.Dir(file))] = func() pvesim.Model { return m.WithOperator() }
	}
	return out
}

func sites() map[string]func() pvesim.Model {
	changed := func(base func() pvesim.Model, change func(*pvesim.Model)) func() pvesim.Model {
		return func() pvesim.Model { m := base(); change(&m); return m }
	}
	return map[string]func() pvesim.Model{
		"one-gpu": pvesim.OneGPU, "eight-a100": pvesim.EightA100, "two-hosts": pvesim.TwoHosts,
		"no-gpu":    changed(pvesim.OneGPU, func(m *pvesim.Model) { m.Hosts[0].PCI = nil }),
		"no-import": changed(pvesim.OneGPU, func(m *pvesim.Model) { m.Hosts[0].Storages[0].Content = []string{"iso", "vztmpl"} }),
		"bridges": changed(pvesim.EightA100, func(m *pvesim.Model) {
			m.Hosts[0].Bridges = []string{"vmbr0", "vmbr1", "vmbr2"}
			m.Hosts[0].CIDRs = map[string]string{"vmbr0": "", "vmbr1": "10.42.7.5/16", "vmbr2": "192.168.7.5/26"}
			m.Hosts[0].Gateway = "10.42.0.1"
		}),
		"tagged": changed(pvesim.OneGPU, func(m *pvesim.Model) {
			h := &m.Hosts[0]
			h.CIDRs, h.VLANAware, h.Gateway = map[string]string{"vmbr0": ""}, h.Bridges, ""
			h.Links = map[string]map[string]string{"vmbr0.20": {"type": "vlan", "cidr": "192.168.20.10/24", "gateway": "192.168.20.1"}}
		}),
		"taken": changed(pvesim.EightA100, func(m *pvesim.Model) {
			m.VMs[1].Config["hostpci0"] = "0000:41:00,pcie=1"
			m.VMs[1].Config["ipconfig0"] = "ip=10.0.0.12/24,gw=10.0.0.1"
		}),
		"three-hosts": func() pvesim.Model {
			m := pvesim.TwoHosts()
			third := m.Hosts[0]
			third.Name, third.CIDRs = "pve3", map[string]string{"vmbr0": "172.16.4.4/24"}
			third.Storages = slices.Clone(third.Storages)
			third.Storages[1].Name = "tank"
			m.Hosts = append(m.Hosts, third)
			return m
		},
	}
}

// TestFiles holds what is written for each site against a file that was read by a
// person, and has package cluster read it.
func TestFiles(t *testing.T) {
	all := sites()
	maps.Copy(all, hosts(t))
	for name, model := range all {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := discover(t, model())
				a := answered(f)
				text, err := draft.Render(f, a)
				require.NoError(t, err)
				path := filepath.Join("testdata", name+".yaml")
				if *update {
					require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
				}
				want, err := os.ReadFile(path)
				require.NoError(t, err)
				assert.Equal(t, string(want), text)
				spec, err := cluster.Parse("cluster.yaml", []byte(text))
				require.NoError(t, err)
				assert.Empty(t, spec.Warnings)
				assert.Len(t, spec.Servers(), a.Servers)
				_, comments, ok := strings.Cut(text, "# Parts of the platform; remove the # of a line to turn it on:\n")
				require.True(t, ok)
				spec, err = cluster.Parse("cluster.yaml", []byte(text+strings.ReplaceAll("\n"+comments, "\n# ", "\n")))
				require.NoError(t, err, "without the #")
				assert.Empty(t, spec.Warnings)
				assert.NotNil(t, spec.Platform.Hub)
				for line := range strings.Lines(text) {
					assert.LessOrEqual(t, len(line), 141, line)
				}
				for _, other := range others(text) {
					_, err = cluster.Parse("cluster.yaml", []byte(other))
					require.NoError(t, err, other)
				}
			})
		})
	}
}

var (
	key      = regexp.MustCompile(`^( +)([a-zA-Z]+):`)
	otherKey = regexp.MustCompile(`^( +)# (storage|resourcePool|bridge|vlan|networks|devices):`)
)

// others are the files that a draft becomes without the # of one of its keys, which replaces the line of the same key.
func others(text string) (out []string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		m := otherKey.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		file, indent := slices.Clone(lines), m[1]
		file[i] = indent + strings.TrimPrefix(line, indent+"# ")
		for j := i + 1; strings.HasPrefix(lines[j], indent+"#   "); j++ {
			file[j] = indent + strings.TrimPrefix(lines[j], indent+"# ")
		}
		for j := i - 1; strings.HasPrefix(lines[j], indent); j-- {
			if k := key.FindStringSubmatch(lines[j]); k != nil && k[1] == indent && k[2] == m[2] {
				file[j] = ""
			}
		}
		out = append(out, strings.Join(file, "\n"))
	}
	return out
}

func TestWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := discover(t, sites()["no-import"]())
		assert.Equal(t, []string{`no storage of pve1 takes content "import": on the host run: pvesm set local --content iso,vztmpl,import`}, draft.Warnings(f, answered(f)))
		f.Tags, f.Down = []string{"homelab-homelab"}, []string{"pve9"}
		assert.Equal(t, "homelab2", f.Defaults().Name)
		a := answered(f)
		a.Name = "homelab"
		all := strings.Join(draft.Warnings(f, a), "\n")
		assert.Contains(t, all, "there is a cluster homelab already")
		assert.Contains(t, all, "pve9 is down")
	})
}

func TestAnswersThatDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := discover(t, pvesim.EightA100())
		for want, change := range map[string]func(*draft.Answers){
			"name":                 func(a *draft.Answers) { a.Name = "My Lab" },
			"2 servers":            func(a *draft.Answers) { a.Servers = 2 },
			"GPUs per worker":      func(a *draft.Answers) { a.GPUsPerWorker = 17 },
			"endpoint":             func(a *draft.Answers) { a.Endpoint = "http://x" },
			"token's ID":           func(a *draft.Answers) { a.TokenID = "homelab@pve!cluster=1234" },
			"env:NAME":             func(a *draft.Answers) { a.Secret = "1234" },
			"fingerprint":          func(a *draft.Answers) { a.Fingerprint = "AB:CD" },
			"write one inside":     func(a *draft.Answers) { a.First = netip.MustParseAddr("10.0.1.1") },
			"too few free":         func(a *draft.Answers) { a.First = netip.MustParseAddr("10.0.0.253") },
			"network of bridge":    func(a *draft.Answers) { a.Prefix = netip.Prefix{} },
			"smallest machines":    func(a *draft.Answers) { a.Servers = 7; f.Hosts[0].Memory = 32 * proxmox.GiB },
			"the public key":       func(a *draft.Answers) { a.PublicKey = "/nowhere.pub" },
			"bridge":               func(a *draft.Answers) { a.Bridge = "a bridge" },
			"make the fingerprint": func(a *draft.Answers) { a.Insecure = true },
		} {
			a := answered(f)
			change(&a)
			err := a.Check(f)
			require.ErrorContains(t, err, want)
			assert.NotContains(t, err.Error(), "1234")
			_, rerr := draft.Render(f, a)
			assert.Equal(t, err, rerr)
		}
	})
}

// FuzzRender: answers that are accepted make a file that is accepted.
func FuzzRender(f *testing.F) {
	var founds []draft.Inventory
	for _, name := range []string{"one-gpu", "eight-a100", "two-hosts", "bridges", "three-hosts"} {
		founds = append(founds, discover(f, sites()[name]()))
	}
	f.Add(uint8(0), "homelab", "10.0.0.5", "homelab@pve!cluster", "env:X", "vmbr0", "10.0.0.0/24", "10.0.0.1", "10.0.0.11", 1, 0, "local", "A100", int64(64))
	f.Add(uint8(1), "a-b", "https://pve.example.org:8006/api2/json", "root@pam!x.y", "file:.homelab/x y", "vmbr1", "10.42.0.0/16", "10.42.255.254", "10.42.1.1", 3, 1, "st: # }", "x\n- y", int64(9))
	f.Add(uint8(4), "x", "[::1]:8006", "a@b!c", "file:#", "v", "192.168.0.0/29", "192.168.0.1", "192.168.0.2", 1, 16, "~", "\"", int64(1<<40))
	f.Fuzz(func(t *testing.T, site uint8, name, endpoint, token, secret, bridge, prefix, gateway, first string, servers, gpus int, storage, model string, memory int64) {
		found := founds[int(site)%len(founds)]
		found.Hosts = slices.Clone(found.Hosts)
		h := found.Hosts[0]
		h.Storages = append(slices.Clone(h.Storages), proxmox.Storage{Name: storage, Active: true, Content: []string{"images", "iso"}, Free: proxmox.Size(memory)})
		h.GPUs = append(slices.Clone(h.GPUs), draft.GPU{Address: "0000:f1:00", Model: model}, draft.GPU{Address: "0000:f2:00", Taken: storage})
		h.Bridges = append(slices.Clone(h.Bridges), proxmox.Bridge{Name: bridge, CIDR: gateway})
		if memory > 0 {
			h.Memory = proxmox.Size(memory)
		}
		found.Hosts[0] = h
		a := draft.Answers{Name: name, Endpoint: endpoint, TokenID: token, Secret: secret, Servers: servers, GPUsPerWorker: gpus, Bridge: bridge}
		a.Prefix, _ = netip.ParsePrefix(prefix)
		a.Gateway, _ = netip.ParseAddr(gateway)
		a.First, _ = netip.ParseAddr(first)
		if a.Check(found) != nil {
			return
		}
		text, err := draft.Render(found, a)
		require.NoError(t, err)
		_, err = cluster.Parse("cluster.yaml", []byte(text))
		require.NoError(t, err, "%s", text)
	})
}
