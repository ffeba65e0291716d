package pvesim

import (
	_ "embed"
	"net/http"

	"github.com/goccy/go-yaml"
)

// nothingYAML says what methods answer about things that there are none of.
//
//go:embed nothing.yaml
var nothingYAML []byte

func nothingHandlers() map[string]handler {
	answers := map[string]any{}
	if err := yaml.Unmarshal(nothingYAML, &answers); err != nil {
		panic("pvesim: embedded nothing.yaml: " + err.Error())
	}
	out := map[string]handler{
		"GET /nodes/{node}/disks/smart": func(*call) (any, error) {
			return nil, die("not a valid block device")
		},
		"GET /nodes/{node}/apt/changelog": func(c *call) (any, error) { // there is no repository
			return "E: Unable to locate package " + c.param("name") + "\nE: No packages found\nRC: 100", nil
		},
		"GET /cluster/config/nodes": (*call).corosyncNodes,
		"GET /cluster/config/totem": (*call).totem,
		"GET /cluster/config/join":  (*call).joinInfo,
		"GET /cluster/backup/{id}":  func(c *call) (any, error) { return nil, badParam("id", "No such job '"+c.param("id")+"'") },
	}
	for name, answer := range answers {
		out[name] = func(*call) (any, error) { return answer, nil }
	}
	for _, one := range []struct{ path, param, text string }{
		{"/cluster/replication/{id}", "id", "no such replication job '%s'"},
		{"/cluster/sdn/zones/{zone}", "zone", "sdn '%s' does not exist"},
		{"/cluster/sdn/vnets/{vnet}", "vnet", "sdn '%s' does not exist"},
		{"/cluster/sdn/dns/{dns}", "dns", "sdn '%s' does not exist"},
	} {
		out["GET "+one.path] = func(c *call) (any, error) { return nil, die(one.text, c.param(one.param)) }
	}
	return out
}

// corosyncNodes are the members of the cluster; who is alone is in none.
func (c *call) corosyncNodes() (any, error) {
	out := []any{}
	if len(c.s.hosts) == 1 {
		return out, nil
	}
	for i, node := range c.s.nodes() {
		out = append(out, map[string]any{"node": node, "name": node, "nodeid": itoa(i + 1), "quorum_votes": "1", "ring0_addr": c.s.ip(node)})
	}
	return out, nil
}

func (c *call) totem() (any, error) {
	if len(c.s.hosts) == 1 {
		return nil, nil
	}
	return map[string]any{"cluster_name": "lab", "config_version": "1", "interface": map[string]any{"0": map[string]any{"linknumber": "0"}},
		"ip_version": "ipv4-6", "link_mode": "passive", "secauth": "on", "version": "2"}, nil
}

// joinInfo is what another node needs to join the cluster.
func (c *call) joinInfo() (any, error) {
	if len(c.s.hosts) == 1 {
		return nil, &apiError{status: http.StatusFailedDependency, text: "node is not in a cluster, no join info available!", unended: true}
	}
	totem, err := c.totem()
	if err != nil {
		return nil, err
	}
	der, err := c.s.certificate()
	if err != nil {
		return nil, err
	}
	nodes := []any{}
	for i, node := range c.s.nodes() {
		nodes = append(nodes, map[string]any{"name": node, "nodeid": itoa(i + 1), "pve_addr": c.s.ip(node), "pve_fp": fingerprint(der), "quorum_votes": "1", "ring0_addr": c.s.ip(node)})
	}
	return map[string]any{"nodelist": nodes, "preferred_node": c.s.nodes()[0], "totem": totem, "config_digest": digestOf(nodes)}, nil
}
