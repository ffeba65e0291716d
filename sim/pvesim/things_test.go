package pvesim

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// step is one request and how it is answered.
type step struct {
	method, path string
	kv           []string
	want         string // status and reason; empty is 200 OK
}

func (c *caller) walk(steps []step) {
	c.t.Helper()
	for _, s := range steps {
		want := s.want
		if want == "" {
			want = "200 OK"
		}
		r := c.do(s.method, s.path, s.kv...)
		assert.Equal(c.t, want, r.line(), "%s %s %v: %s", s.method, s.path, s.kv, r.body)
	}
}

func kv(pairs ...string) []string { return pairs }

func TestStoragesAreMadeAndUsed(t *testing.T) {
	in(t, TwoHosts(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		c.walk([]step{
			{"POST", "/storage", kv("storage", "nas", "type", "nfs", "server", "10.0.0.9"), "500 missing value for required option 'export'"},
			{"POST", "/storage", kv("storage", "nas", "type", "nfs", "server", "10.0.0.9", "export", "/tank", "content", "images,iso"), ""},
			{"POST", "/storage", kv("storage", "nas", "type", "dir", "path", "/x"), "500 create storage failed: storage ID 'nas' already defined"},
			{"POST", "/storage", kv("storage", "made", "type", "dir", "path", "/x", "create-base-path", "0"), "500 create storage failed: unable to activate storage 'made' - directory '/x' does not exist or is unreachable"},
			{"POST", "/storage", kv("storage", "second", "type", "dir", "path", "/var/lib/vz", "create-base-path", "0"), ""},
			{"DELETE", "/storage/second", nil, ""},
			{"POST", "/storage", kv("storage", "odd", "type", "dir", "path", "/x", "content", "nonsense"), "400 Parameter verification failed."},
			{"PUT", "/storage/nas", kv("delete", "server"), "500 update storage failed: unable to delete required option 'server'"},
			{"PUT", "/storage/nas", kv("content", "images", "digest", "00"), "500 update storage failed: detected modified configuration - file changed by other user? Try again."},
		})
		c.walk([]step{
			{"POST", "/storage", kv("storage", "vault", "type", "pbs", "server", "10.0.0.9", "datastore", "main", "password", "secret"), ""},
			{"PUT", "/storage/vault", kv("master-pubkey", "LS0t"), ""},
		})
		vault := c.do("GET", "/storage/vault").object()
		assert.Equal(t, "1", vault["master-pubkey"], "that there is one is told, and not which")
		assert.NotContains(t, vault, "password")
		c.walk([]step{{"PUT", "/storage/vault", kv("delete", "master-pubkey"), ""}, {"DELETE", "/storage/vault", nil, ""}})
		entry := c.do("GET", "/storage/nas").object()
		assert.Equal(t, []any{"nfs", "10.0.0.9", "/tank", "images,iso"}, []any{entry["type"], entry["server"], entry["export"], entry["content"]})
		require.Equal(t, "OK", c.wait(c.upload("nas", "iso", "x.iso", make([]byte, 10))))
		assert.Contains(t, c.do("GET", "/nodes/pve2/storage/nas/content").body, "nas:iso/x.iso", "what is shared is there on every node")

		c.walk([]step{{"PUT", "/storage/nas", kv("nodes", "pve1"), ""}})
		assert.Equal(t, "500 storage 'nas' is not available on node 'pve2'", c.do("GET", "/nodes/pve2/storage/nas/content").line())
		assert.Contains(t, c.do("GET", "/nodes/pve1/storage/nas/content").body, "nas:iso/x.iso")
		c.walk([]step{
			{"PUT", "/storage/nas", kv("disable", "1"), ""},
			{"GET", "/nodes/pve1/storage/nas/content", nil, "500 storage 'nas' is disabled"},
			{"DELETE", "/storage/nas", nil, ""},
			{"DELETE", "/storage/nas", nil, "500 delete storage failed: storage 'nas' does not exist"},
		})
	})
}

func TestFirewallsAreKept(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		const vm = "/nodes/pve1/qemu/104/firewall"
		c.walk([]step{
			{"PUT", vm + "/options", kv("enable", "1", "policy_in", "DROP"), ""},
			{"POST", vm + "/rules", kv("type", "in", "action", "ACCEPT", "comment", "first"), ""},
			{"POST", vm + "/rules", kv("type", "in", "action", "DROP", "comment", "second"), ""},
			{"POST", vm + "/rules", kv("type", "in", "action", "PERHAPS"), "400 Parameter verification failed."},
			{"PUT", vm + "/rules/1", kv("moveto", "0"), ""},
			{"GET", vm + "/rules/7", nil, "500 no rule at position 7"},
			{"POST", "/cluster/firewall/ipset", kv("name", "lan"), ""},
			{"POST", "/cluster/firewall/ipset/lan", kv("cidr", "10.0.0.0/8"), ""},
			{"DELETE", "/cluster/firewall/ipset/lan", nil, "500 IPSet 'lan' is not empty"},
			{"DELETE", "/cluster/firewall/ipset/lan/10.0.0.0%2F8", nil, ""},
			{"DELETE", "/cluster/firewall/ipset/lan", nil, ""},
			{"POST", "/cluster/firewall/groups", kv("group", "web"), ""},
			{"POST", "/cluster/firewall/groups/web", kv("type", "in", "action", "ACCEPT", "dport", "443", "proto", "tcp"), ""},
			{"DELETE", "/cluster/firewall/groups/web", nil, "500 Security group 'web' is not empty"},
			{"POST", "/cluster/firewall/groups/none", kv("type", "in", "action", "ACCEPT"), "500 no such security group 'none'"},
		})
		assert.EqualValues(t, 1, c.do("GET", vm+"/options").object()["enable"])
		first := c.do("GET", vm+"/rules/0").object()
		assert.Equal(t, "first", first["comment"], "a new rule is put before the others, and this one was moved back")
		require.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/104")))
		assert.NotContains(t, c.do("GET", vm+"/options").object(), "enable", "it goes with its machine, and nobody asks whether there is one")
	})
}

func TestInterfacesBecomeRealWhenApplied(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		const network = "/nodes/pve1/network"
		c.walk([]step{
			{"POST", network, kv("iface", "vmbr7", "type", "bridge", "bridge_vlan_aware", "1"), ""},
			{"POST", network, kv("iface", "vmbr7", "type", "bridge"), "400 Parameter verification failed."},
			{"PUT", "/nodes/pve1/qemu/104/config", kv("net0", "virtio,bridge=vmbr7"), ""},
		})
		staged := c.do("GET", network+"/vmbr7").object()
		assert.Equal(t, []any{"", nil, nil, "manual"}, []any{staged["bridge_ports"], staged["cidr"], staged["active"], staged["method"]}, "nothing unasked, and not up yet")
		var answer struct{ Changes string }
		require.NoError(t, json.Unmarshal([]byte(c.do("GET", network).body), &answer))
		assert.Contains(t, answer.Changes, "\n+iface vmbr7 inet manual\n+\tbridge-ports none\n")
		require.Equal(t, "OK", c.wait(c.do("PUT", network)))
		assert.EqualValues(t, 1, c.do("GET", network+"/vmbr7").object()["bridge_vlan_aware"])
		c.walk([]step{{"PUT", "/nodes/pve1/qemu/104/config", kv("net0", "virtio,bridge=vmbr7"), ""}})
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/104/status/start")))
		c.walk([]step{{"DELETE", network + "/vmbr7", nil, ""}})
		require.Equal(t, "OK", c.wait(c.do("PUT", network)))
		assert.NotContains(t, c.do("GET", network).body, "vmbr7")
	})
}

func TestPoolsHoldMachinesAndStorages(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		c.walk([]step{
			{"POST", "/pools", kv("poolid", "a"), ""},
			{"POST", "/pools", kv("poolid", "b"), ""},
			{"PUT", "/pools", kv("poolid", "a", "vms", "100", "storage", "vmdata"), ""},
			{"PUT", "/pools", kv("poolid", "b", "vms", "100"), "500 update pools failed: VM 100 belongs already to pool 'a' and 'allow-move' is not set"},
			{"PUT", "/pools", kv("poolid", "b", "vms", "100", "allow-move", "1"), ""},
			{"DELETE", "/pools/a", nil, "500 delete pool failed: pool 'a' is not empty (contains storage 'vmdata')"},
			{"DELETE", "/pools/b", nil, "500 delete pool failed: pool 'b' is not empty (contains VM 100)"},
			{"PUT", "/pools", kv("poolid", "a", "storage", "vmdata", "delete", "1"), ""},
			{"DELETE", "/pools/a", nil, ""},
		})
		assert.Contains(t, c.do("GET", "/pools/b").body, `"vmid":100`)
	})
}

func TestAHostThatIsOffAndAClusterWithoutAMajority(t *testing.T) {
	m := TwoHosts()
	m.Hosts[1].Offline, m.NoQuorum = true, true
	m.NextID = IDRange{Lower: 500, Upper: 502}
	in(t, m, Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		c.walk([]step{
			{"GET", "/nodes/pve2/status", nil, "595 No route to host"},
			{"GET", "/nodes/pve1/status", nil, ""},
			{"POST", "/nodes/pve1/qemu", kv("vmid", "500"), "500 cluster not ready - no quorum?"},
		})
		assert.Contains(t, c.do("GET", "/nodes").body, `"status":"offline"`)
		assert.Contains(t, c.do("GET", "/cluster/status").body, `"quorate":0`)
		assert.Equal(t, "500", c.do("GET", "/cluster/nextid").text())
		s.AddVM(VM{ID: 500, Node: "pve1", Name: "a"})
		s.AddVM(VM{ID: 501, Node: "pve1", Name: "b"})
		assert.Equal(t, "500 unable to get any free VMID in range [500, 501]", c.do("GET", "/cluster/nextid").line())
	})
}

func TestLocksOfOthersAreWaitedFor(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		release := s.Hold("file-user_cfg")
		began := time.Now()
		c.walk([]step{{"POST", "/access/groups", kv("groupid", "ops"), "500 create group failed: cfs-lock 'file-user_cfg' error: got lock request timeout"}})
		assert.Equal(t, 10*time.Second+s.state.Options.Timing.Call, time.Since(began))
		release()
		c.walk([]step{{"POST", "/access/groups", kv("groupid", "ops"), ""}})
	})
}

func TestPauseAndSuspend(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		const vm = "/nodes/pve1/qemu/100"
		state := func() []any {
			now := c.do("GET", vm+"/status/current").object()
			return []any{now["status"], now["qmpstatus"], now["lock"]}
		}
		require.Equal(t, "OK", c.wait(c.do("POST", vm+"/status/suspend")))
		assert.Equal(t, []any{"running", "paused", nil}, state())
		require.Equal(t, "OK", c.wait(c.do("POST", vm+"/status/resume")))
		require.Equal(t, "OK", c.wait(c.do("POST", vm+"/status/suspend", "todisk", "1")))
		assert.Equal(t, []any{"stopped", "stopped", "suspended"}, state())
		assert.Equal(t, "500 VM is locked (suspended)", c.do("PUT", vm+"/config", "memory", "8192").line())
		require.Equal(t, "OK", c.wait(c.do("POST", vm+"/status/start")))
		assert.Equal(t, []any{"running", "running", nil}, state())
		for _, v := range s.Volumes() {
			assert.NotContains(t, v.ID, "state-suspend", "the state goes when the machine is back")
		}
	})
}

func TestRulesAreVerified(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		const rules = "/nodes/pve1/qemu/104/firewall/rules"
		c.walk([]step{
			{"POST", "/cluster/firewall/aliases", kv("name", "Office", "cidr", "10.0.0.0/8"), ""},
			{"POST", "/cluster/firewall/aliases", kv("name", "six", "cidr", "fd00::/8"), ""},
			{"DELETE", rules + "/0", nil, "500 Can't use an undefined value as an ARRAY reference at /usr/share/perl5/PVE/API2/Firewall/Rules.pm line 462."},
			{"GET", rules + "/0", nil, "500 no rule at position 0"},
		})
		for _, x := range []struct{ rule, param, text string }{
			{"dport=22", "proto", "missing property - 'dport' requires this property"},
			{"dport=22 proto=esp", "dport", "protocol 'esp' does not support ports"},
			{"dport=70000 proto=tcp", "dport", "invalid format - invalid port '70000'\n"},
			{"dport=90:80 proto=tcp", "dport", "invalid format - backwards range '90:80' not allowed, did you mean '80:90'?\n"},
			{"dport=echo-request proto=tcp", "dport", "invalid port 'echo-request'"},
			{"sport=nosuchservice proto=tcp", "sport", "invalid format - invalid port 'nosuchservice'\n"},
			{"proto=nosuch", "proto", "invalid format - unknown protocol 'nosuch'\n"},
			{"icmp-type=echo-request", "proto", "missing property - 'icmp-type' requires this property"},
			{"icmp-type=no-route proto=icmp", "icmp-type", "invalid icmp-type 'no-route' for proto 'icmp'"},
			{"macro=NoSuch", "macro", "unknown macro 'NoSuch'"},
			{"macro=ssh proto=udp", "proto", "parameter 'proto' already define in macro (value = 'tcp')"},
			{"source=nosuch", "source", "no such alias 'nosuch'"},
			{"source=+nosuch", "source", "no such ipset 'nosuch'"},
			{"source=six dest=Office", "dest", "detected mixed ipv4/ipv6 addresses in rule"},
			{"source=10.0.0.1,fd00::1", "source", "invalid format - detected mixed ipv4/ipv6 addresses in address list '10.0.0.1,fd00::1'\n"},
			{"source=10.0.0.300", "source", "invalid format - invalid IP address: Invalid quad in IP address 10.0.0.300 - 300\n"},
			{"iface=eth0", "iface", `value does not match the regex pattern 'net\d+'`},
		} {
			r := c.do("POST", rules, append(kv("type", "in", "action", "ACCEPT"), strings.FieldsFunc(x.rule, func(r rune) bool { return r == ' ' || r == '=' })...)...)
			assert.Equal(t, map[string]string{x.param: x.text}, r.Errors, x.rule)
		}
		c.walk([]step{{"POST", rules, kv("type", "in", "action", "ACCEPT", "macro", "ssh", "source", "office", "enable", "1"), ""}})
		one := c.do("GET", rules+"/0").object()
		assert.Equal(t, []any{"SSH", 4.0, 1.0, "0"}, []any{one["macro"], one["ipversion"], one["enable"], one["pos"]})
		c.walk([]step{{"DELETE", "/cluster/firewall/aliases/office", nil, ""}})
		assert.Equal(t, map[string]any{"source": "no such alias 'office'"}, c.do("GET", rules+"/0").object()["errors"], "what was right can become wrong")
	})
}

// What a storage's section names is told, also where it is all that there is.
func TestNodesOfAStorage(t *testing.T) {
	in(t, OneGPU(), Options{}, func(t *testing.T, _ *Sim, c *caller) {
		require.Equal(t, 200, c.do("POST", "/storage", "storage", "here", "type", "dir", "path", "/srv/here", "nodes", "pve1").status)
		assert.Equal(t, "pve1", c.do("GET", "/storage/here").object()["nodes"])
		require.Equal(t, 200, c.do("PUT", "/storage/here", "content", "iso").status)
		assert.Equal(t, "pve1", c.do("GET", "/storage/here").object()["nodes"])
		require.Equal(t, 200, c.do("PUT", "/storage/here", "delete", "nodes").status)
		assert.NotContains(t, c.do("GET", "/storage/here").object(), "nodes")
	})
}
