package pvesim

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestControllersOfSDN holds texts and shapes that Proxmox VE 9.2.11 gave.
func TestControllersOfSDN(t *testing.T) {
	const controllers = "/cluster/sdn/controllers"
	in(t, OneGPU(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		make1 := kv("controller", "edge", "type", "evpn", "asn", "65000", "peers", "10.0.0.1")
		c.walk([]step{
			{"POST", controllers, kv("controller", "edge", "type", "bgp", "asn", "65000"), "500 missing value for required option 'node'"},
			{"POST", controllers, kv("controller", "edge", "type", "evpn", "asn", "65000"),
				"500 create sdn controller object failed: must have exactly one of peers / fabric defined at /usr/share/perl5/PVE/Network/SDN/Controllers/EvpnPlugin.pm line 498."},
			{"POST", controllers, make1, ""},
			{"POST", controllers, make1, "500 create sdn controller object failed: sdn controller object ID 'edge' already defined"},
			{"PUT", "/cluster/options", kv("description", "a", "description", "b"), "400 Parameter verification failed."}, // no list
			{"PUT", controllers + "/edge", kv("peers", "10.0.0.3", "peers", "10.0.0.4"), ""},
			{"PUT", controllers + "/edge", kv("peers", "10.0.0.1"), ""},
			{"PUT", controllers + "/edge", kv("node", "pve1"), "500 update sdn controller object failed: unexpected property 'node'"},
			{"PUT", controllers + "/edge", kv("delete", "asn"), "500 update sdn controller object failed: unable to delete required option 'asn'"},
			{"PUT", controllers + "/edge", kv("peers", "10.0.0.2", "digest", "abc"),
				"500 update sdn controller object failed: detected modified configuration - file changed by other user? Try again."},
			{"PUT", controllers + "/none", kv("peers", "10.0.0.2"), "500 update sdn controller object failed: sdn 'none' does not exist"},
			{"GET", controllers + "/edge", kv("running", "1"), "500 sdn 'edge' does not exist"},
			{"POST", "/cluster/sdn/lock", nil,
				"500 could not acquire lock for SDN config: configuration has pending changes at /usr/share/perl5/PVE/API2/Network/SDN.pm line 150."},
		})
		one := c.do("GET", controllers+"/edge").object()
		assert.NotEmpty(t, one["digest"])
		assert.Equal(t, map[string]any{"controller": "edge", "type": "evpn", "asn": 65000.0, "peers": "10.0.0.1", "digest": one["digest"]}, one)
		assert.JSONEq(t, `[{"controller":"edge","pending":{"peers":"10.0.0.1","asn":65000},"type":"evpn","state":"new","digest":null}]`,
			string(c.do("GET", controllers, "pending", "1").Data))

		assert.Equal(t, "OK", c.wait(c.do("PUT", "/cluster/sdn")))
		c.walk([]step{{"PUT", controllers + "/edge", kv("peers", "10.0.0.2,10.0.0.3"), ""}})
		assert.JSONEq(t, `{"controller":"edge","type":"evpn","asn":65000,"peers":"10.0.0.1","pending":{"peers":"10.0.0.2,10.0.0.3"},"state":"changed","digest":null}`,
			string(c.do("GET", controllers+"/edge", "pending", "1").Data))
		c.walk([]step{{"POST", "/cluster/sdn/rollback", nil, ""}})
		assert.Equal(t, "10.0.0.1", c.do("GET", controllers+"/edge").object()["peers"])
		c.walk([]step{{"DELETE", controllers + "/edge", nil, ""}, {"DELETE", controllers + "/edge", nil, "500 delete sdn controller object failed: sdn 'edge' does not exist"}})
		assert.Equal(t, "deleted", c.do("GET", controllers+"/edge", "pending", "1").object()["state"])
	})
}

func TestSDNIsLocked(t *testing.T) {
	in(t, OneGPU(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		const denied = "invalid lock token provided! at /usr/share/perl5/PVE/Network/SDN.pm line 291."
		token := c.do("POST", "/cluster/sdn/lock").text()
		require.NotEmpty(t, token)
		c.walk([]step{
			{"POST", "/cluster/sdn/lock", nil, "500 could not acquire lock for SDN config: " + denied},
			{"PUT", "/cluster/sdn", nil, "500 could not commit SDN config: " + denied},
			{"DELETE", "/cluster/sdn/lock", nil, "500 could not release lock: " + denied},
			{"POST", "/cluster/sdn/rollback", kv("lock-token", token, "release-lock", "0"), ""},
			{"POST", "/cluster/sdn/rollback", kv("lock-token", token), ""},
			{"POST", "/cluster/sdn/rollback", nil, ""},
		})
		c.do("POST", "/cluster/sdn/lock")
		c.walk([]step{{"DELETE", "/cluster/sdn/lock", kv("force", "1"), ""}, {"POST", "/cluster/sdn/rollback", nil, ""}})
	})
}

func TestFabricsOfSDN(t *testing.T) {
	const fabrics, nodes = "/cluster/sdn/fabrics/fabric", "/cluster/sdn/fabrics/node"
	in(t, TwoHosts(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		node := func(name, ip string, more ...string) []string {
			return append(kv("node_id", name, "protocol", "openfabric", "ip", ip), more...)
		}
		c.walk([]step{
			{"POST", fabrics, kv("id", "spine", "protocol", "openfabric"), "500 adding fabric failed: fabric 'spine' does not have an IP prefix configured"},
			{"POST", fabrics, kv("id", "spine", "protocol", "openfabric", "ip_prefix", "10.0.3.0/16", "hello_interval", "3", "unheard", "of"), ""},
			{"POST", fabrics, kv("id", "spine", "protocol", "openfabric", "ip_prefix", "10.9.0.0/16"), "500 adding fabric failed: fabric 'spine' already exists in config"},
			{"POST", fabrics, kv("id", "other", "protocol", "ospf", "ip_prefix", "10.0.1.0/24", "area", "0"),
				"500 adding fabric failed: IP prefix 10.0.0.0/16 in fabric 'spine' overlaps with IPv4 prefix 10.0.1.0/24 in fabric 'other'"},
			{"PUT", fabrics + "/spine", kv("ip_prefix", "10.0.0.0/16"), "400 Parameter verification failed."}, // no protocol
			{"PUT", fabrics + "/spine", kv("protocol", "openfabric", "delete", "area"), "400 Parameter verification failed."},
			{"PUT", fabrics + "/spine", kv("protocol", "openfabric", "delete", "hello_interval"), ""},
			{"GET", fabrics + "/none", nil, "500 fabric 'none' does not exist in configuration"},
			{"POST", nodes + "/none", node("pve1", "10.0.0.1"), "500 adding node failed: fabric 'none' does not exist in configuration"},
			{"POST", nodes + "/spine", node("pve1", "10.1.0.1"), "500 adding node failed: node IP 10.1.0.1 is outside the IP prefix 10.0.0.0/16 of the fabric"},
			{"POST", nodes + "/spine", node("pve1", "10.0.0.1", "interfaces", "name=nic0,ip=nonsense"), "400 Parameter verification failed."},
			{"POST", nodes + "/spine", node("pve1", "10.0.0.1", "interfaces", "hello_multiplier=3,name=nic0"), ""},
			{"POST", nodes + "/spine", node("pve2", "10.0.0.1"), "500 adding node failed: fabric spine contains nodes with duplicated IPs"},
			{"GET", nodes + "/spine/pve2", nil, "500 node 'pve2' does not exist in fabric 'spine'"},
		})
		one := c.do("GET", fabrics+"/spine", "pending", "1").object() // it does not know the word, and takes it
		assert.Len(t, one["digest"], 64)
		assert.Equal(t, map[string]any{"id": "spine", "protocol": "openfabric", "ip_prefix": "10.0.0.0/16", "digest": one["digest"]}, one)
		assert.JSONEq(t, `[{"id":"spine","protocol":"openfabric","ip_prefix":"10.0.0.0/16"}]`, string(c.do("GET", fabrics).Data))
		var pending []map[string]any
		require.NoError(t, json.Unmarshal(c.do("GET", nodes+"/spine", "pending", "1").Data, &pending))
		require.Len(t, pending, 1)
		assert.Equal(t, "new", pending[0]["state"])
		assert.Equal(t, []any{"name=nic0,hello_multiplier=3"}, pending[0]["pending"].(map[string]any)["interfaces"])

		assert.Equal(t, "OK", c.wait(c.do("PUT", "/cluster/sdn")))
		c.walk([]step{
			{"PUT", nodes + "/spine/pve1", kv("protocol", "openfabric", "ip", "10.0.0.2", "delete", "interfaces"), ""},
			{"POST", "/cluster/sdn/controllers", kv("controller", "edge", "type", "evpn", "asn", "65000", "fabric", "spine"), ""},
			{"DELETE", fabrics + "/spine", nil,
				`500 deleting fabric failed: this fabric is still used in the EVPN controller "edge" at /usr/share/perl5/PVE/API2/Network/SDN/Fabrics/Fabric.pm line 243.`},
			{"DELETE", "/cluster/sdn/controllers/edge", nil, ""},
		})
		now := c.do("GET", nodes+"/spine/pve1").object()
		assert.Equal(t, []any{"10.0.0.2", []any{}}, []any{now["ip"], now["interfaces"]})
		c.walk([]step{{"DELETE", fabrics + "/spine", nil, ""}})
		assert.JSONEq(t, `{"fabrics":[],"nodes":[]}`, string(c.do("GET", "/cluster/sdn/fabrics/all").Data), "its nodes are gone with it")
	})
}
