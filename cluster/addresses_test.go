package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// moved lets the next commands work in another folder, as somebody else does, with the same key.
func (w *world) moved(t *testing.T) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(w.dir, "id_ed25519"))
	require.NoError(t, err)
	w.dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "id_ed25519"), key, 0o600))
}

// forbidden plans and runs up, sees that both refuse and nothing changes, and returns what the plan
// says.
func (w *world) forbidden(t *testing.T, file string) string {
	t.Helper()
	spec := parse(t, file)
	c := w.cluster(t, spec)
	defer c.Close()
	before := w.inventory()
	plan, err := c.Up().Plan(t.Context())
	require.NoError(t, err)
	require.Error(t, plan.Err())
	_, err = c.Up().Run(t.Context(), w.listen(t))
	require.Error(t, err)
	for line := range strings.Lines(plan.Err().Error()) {
		assert.Contains(t, err.Error(), strings.TrimSpace(line))
	}
	assert.Equal(t, before, w.inventory(), "nothing was made")
	return plan.Err().Error()
}

// trio is three servers with a VIP.
const trio = `name: trio
proxmox: {endpoint: lab}
network: {prefix: 192.168.1.0/24, gateway: 192.168.1.1}
k3s: {vip: 192.168.1.60}
pools:
  cp: {role: server, count: 3, addresses: [192.168.1.61-192.168.1.63]}
`

// A copied file with other names takes over no cluster, whether its machines run or not.
func TestCopiedFile(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		file := lab(example(t, "one-gpu"))
		w.up(t, parse(t, file))
		w.moved(t)

		copied := replace(t, file, "name: one-gpu", "name: copy")
		copied = replace(t, copied, "  server: {", "  boss: {")
		copied = replace(t, copied, "  gpu: {", "  card: {")
		for range 2 {
			said := w.forbidden(t, copied)
			assert.Contains(t, said, ": 192.168.1.61 of boss1 is taken: server1 (VM ")
			assert.Contains(t, said, " on pve1) of cluster one-gpu has it")
			assert.Contains(t, said, ": 192.168.1.71 of card1 is taken: gpu1 (VM ")
			assert.Regexp(t, `cluster\.yaml:\d+:\d+: 192\.168\.1\.61 of boss1`, said)
			for _, name := range []string{"server1", "gpu1"} { // the second time, nothing answers
				if w.guests()[name] != nil {
					w.stop(t, name)
				}
			}
		}
	})
}

// The VIP and the pools of a cluster are known to others by its servers' notes, which no guest has
// to answer for.
func TestSharedAddresses(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, trio))
		w.moved(t)
		w.sim.AddVM(pvesim.VM{ID: 950, Node: "pve1", Name: "far1", Config: map[string]string{"memory": "1024", "tags": "homelab-far;homelab-far_950_12345678",
			"description": "The first server.\n\nhomelab: homelab-far_950_12345678 192.168.1.200-192.168.1.219"}})

		taken := replace(t, lab(example(t, "one-gpu")), "192.168.1.61", "192.168.1.60")
		taken = replace(t, taken, "192.168.1.71", "192.168.1.210")
		said := w.forbidden(t, taken)
		assert.Contains(t, said, "192.168.1.60 of server1 is taken: cp")
		assert.Contains(t, said, "192.168.1.210 of gpu1 is taken: far1 (VM 950 on pve1) of cluster far has it")

		taken = strings.NewReplacer("name: trio", "name: duo", "cp:", "boss:", "192.168.1.60", "192.168.1.219", "192.168.1.6", "192.168.1.8").Replace(trio)
		assert.Contains(t, w.forbidden(t, taken), "192.168.1.219 of the VIP is taken: far1 (VM 950 on pve1) of cluster far has it")
	})
}

// A running API at the VIP is known by its certificate, even if no configuration names it.
func TestAnswersAtTheVIP(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, trio))
		for _, name := range w.names() {
			w.configure(t, name, "description", "")
		}
		w.moved(t)
		taken := strings.NewReplacer("name: trio", "name: duo", "cp:", "boss:", "192.168.1.61-192.168.1.63", "192.168.1.81-192.168.1.83").Replace(trio)
		assert.Contains(t, w.forbidden(t, taken), `192.168.1.60 of the VIP is taken: an API answers there on port 6443, with a certificate of "k3s-server-ca`)
	})
}

// What others have is found in their configurations, and what answers is found by asking.
func TestOthersAddresses(t *testing.T) {
	file := lab(example(t, "one-gpu"))
	for name, c := range map[string]struct {
		arrange func(*world)
		says    string // "": nothing is wrong
	}{
		"a VM that is off":     {func(w *world) { w.sim.AddVM(other("ipconfig0", "ip=192.168.1.61/24,gw=192.168.1.1")) }, "192.168.1.61 of server1 is taken: nas (VM 900 on pve1) has it"},
		"its second interface": {func(w *world) { w.sim.AddVM(other("ipconfig1", "ip=192.168.1.71/24")) }, "192.168.1.71 of gpu1 is taken: nas (VM 900 on pve1) has it"},
		"a MAC": {func(w *world) {
			w.sim.AddVM(other("net0", "virtio="+parse(t, file).Nodes[0].MAC.String()+",bridge=vmbr0"))
		}, "the MAC of server1 is taken: nas (VM 900 on pve1) has it"},
		"another address": {func(w *world) { w.sim.AddVM(other("ipconfig0", "ip=192.168.1.62/24")) }, ""},
		"a template": {func(w *world) {
			vm := other("ipconfig0", "ip=192.168.1.61/24")
			vm.Config["template"] = "1"
			w.sim.AddVM(vm)
		}, ""},
		"notes that only look like it": {func(w *world) { w.sim.AddVM(other("description", "ip=192.168.1.61/24")) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				c.arrange(w)
				if c.says == "" {
					w.up(t, parse(t, file))
					return
				}
				assert.Contains(t, w.forbidden(t, file), c.says)
			})
		})
	}
}

func other(key, value string) pvesim.VM {
	return pvesim.VM{ID: 900, Node: "pve1", Name: "nas", Config: map[string]string{"memory": "1024", key: value}}
}

// stop switches a machine off, as a person does in the web interface.
func (w *world) stop(t testing.TB, name string) {
	t.Helper()
	id, token := w.sim.Token()
	status := request(t, w.sim.Client(), "POST", fmt.Sprintf("/nodes/pve1/qemu/%d/status/stop", w.vm(t, name).ID), id+"="+token, "{}")
	require.Equal(t, 200, status)
	w.sim.Settle()
	require.Nil(t, w.guests()[name])
}

// Addresses that Proxmox's IPAM keeps in the machines' network are taken. It is asked only
// where a machine joins such a network; what it keeps for our machines is ours, and who may not see
// it is told nothing.
func TestAddressesInIPAM(t *testing.T) {
	file := lab(example(t, "one-gpu"))
	joined := replace(t, file, "network: {", "network: {bridge: lab0, ")
	mac := parse(t, joined).Nodes[0].MAC.String()
	for name, c := range map[string]struct {
		file  string
		lease pvesim.Lease
		role  string
		says  string // "": nothing is wrong
		asks  int
	}{
		"a guest's":          {joined, pvesim.Lease{IP: "192.168.1.61", VMID: 900, Hostname: "nas"}, "PVESDNUser", "192.168.1.61 of server1 is taken: Proxmox's IPAM keeps it for nas (VM 900)", 1},
		"by hand":            {joined, pvesim.Lease{IP: "192.168.1.71", MAC: "BC:24:11:00:00:01"}, "PVESDNUser", "192.168.1.71 of gpu1 is taken: Proxmox's IPAM keeps it for BC:24:11:00:00:01", 1},
		"the gateway's":      {joined, pvesim.Lease{IP: "192.168.1.71", Gateway: true}, "PVESDNUser", "keeps it for the gateway of VNet lab0", 1},
		"for our MAC":        {joined, pvesim.Lease{IP: "192.168.1.61", MAC: strings.ToUpper(mac)}, "PVESDNUser", "", 1},
		"another":            {joined, pvesim.Lease{IP: "192.168.1.99", VMID: 900}, "PVESDNUser", "", 1},
		"in another network": {file, pvesim.Lease{IP: "192.168.1.61", VMID: 900}, "PVESDNUser", "", 0},
		"unseen":             {joined, pvesim.Lease{IP: "192.168.1.61", VMID: 900}, "Blind", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := pvesim.OneGPU()
				m.VNets = []pvesim.VNet{{Name: "lab0", Zone: "z1", Subnet: "192.168.1.0/24", DHCP: "192.168.1.61-192.168.1.199", Leases: []pvesim.Lease{c.lease}}}
				m.Roles = append(m.Roles, pvesim.Role{ID: "Blind", Privs: []string{"SDN.Use"}})
				m.ACLs = append(m.ACLs, pvesim.ACL{Path: "/sdn/zones/z1", Who: m.ACLs[0].Who, Role: c.role})
				w := newWorld(t, m)
				if c.says != "" {
					assert.Contains(t, w.forbidden(t, c.file), c.says)
					return
				}
				_, err := w.cluster(t, parse(t, c.file)).Up().Plan(t.Context())
				require.NoError(t, err)
				asks := 0
				for _, r := range w.sim.Requests() {
					if strings.HasSuffix(r.Path, "/cluster/sdn/ipams/pve/status") {
						asks++
					}
				}
				assert.Equal(t, c.asks, asks)
				w.up(t, parse(t, c.file))
				w.up(t, parse(t, c.file))
			})
		})
	}
}

// The VIP of a cluster of external machines is looked for before the first of them gets K3s; that of
// a cluster that exists is its own.
func TestVIPOfExternalMachines(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a, b := w.external(t, "10.0.0.40"), w.external(t, "10.0.0.50")
		defer a.Kill()
		defer b.Kill()
		keys := filepath.Join(t.TempDir(), "known_hosts")
		meet(t, keys, "10.0.0.40", a)
		alone := parse(t, "name: alone\nk3s: {vip: 10.0.0.50}\nnodes:\n  a: {role: server, external: ops@10.0.0.40}\n")
		c := w.bare(t, alone, keys)
		plan, err := c.Up().Plan(t.Context())
		require.NoError(t, err)
		require.ErrorContains(t, plan.Err(), "cluster.yaml:2:12: 10.0.0.50 of the VIP is taken: ")
		_, err = c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "of the VIP is taken")
		assert.False(t, a.Disk().Exists("/usr/local/bin/k3s"))

		b.Kill()
		for range 2 {
			_, err = w.bare(t, alone, keys).Up().Run(t.Context(), w.listen(t))
			require.NoError(t, err)
		}
	})
}
