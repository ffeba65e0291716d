package pvesim

import (
	_ "embed"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// nothingYAML says what methods answer about things that there are none of.
//
//go:embed nothing.yaml
var nothingYAML []byte

// refusalsYAML says how methods refuse to do something with what there is not.
//
//go:embed refusals.yaml
var refusalsYAML []byte

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

// refusers answer for methods that are not served, as there is nothing that they could
// be about. Who asks what is served does not hear of them.
func refusers() map[string]handler {
	out := map[string]handler{
		"POST /access/openid/login": func(c *call) (any, error) { // nobody has asked OpenID's server before
			if c.s.wait(unauthorizedDelay, nil) != nil {
				return nil, errDropped
			}
			return nil, fail(http.StatusUnauthorized, "authentication failure")
		},
		"POST /cluster/replication": (*call).replicate,
		"GET /nodes/{node}/qemu/{vmid}/mtunnelwebsocket": func(*call) (any, error) {
			return nil, fail(http.StatusUnauthorized, "permission denied - invalid PVETUNNEL ticket")
		},
		"POST /nodes/{node}/qemu/{vmid}/mtunnel": func(c *call) (any, error) {
			if v := c.s.vms[c.vmid()]; v != nil {
				return nil, badParam("vmid", fmt.Sprintf("unable to create empty VM config - VM %d already exists on node '%s'\n", v.id, v.node))
			}
			return c.notHere()
		},
		"GET /nodes/{node}/storage/{storage}/identity": (*call).storageIdentity,
		"POST /access/domains/{realm}/sync":            (*call).syncRealm,
		"POST /access/openid/auth-url":                 (*call).askOpenID,
	}
	refusals := struct {
		Refuse map[string]string `yaml:"refuse"`
		Wrong  map[string]string `yaml:"wrong"`
	}{}
	if err := yaml.Unmarshal(refusalsYAML, &refusals); err != nil {
		panic("pvesim: embedded refusals.yaml: " + err.Error())
	}
	for name, text := range refusals.Refuse {
		out[name] = func(c *call) (any, error) { return nil, fail(http.StatusInternalServerError, fill(text, c.p)) }
	}
	for _, name := range []string{"POST /cluster/replication", "PUT /cluster/replication/{id}", "DELETE /cluster/replication/{id}", "POST /nodes/{node}/replication/{id}/schedule_now"} {
		out[name] = replicator(out[name])
	}
	for name, text := range refusals.Wrong {
		param, text, _ := strings.Cut(text, ": ")
		out[name] = func(c *call) (any, error) { return nil, badParam(param, fill(text, c.p)) }
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
		out = append(out, map[string]any{"node": node, "name": node, "nodeid": strconv.Itoa(i + 1), "quorum_votes": "1", "ring0_addr": c.s.ip(node)})
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
	members := []any{}
	for i, node := range c.s.nodes() {
		members = append(members, map[string]any{"name": node, "nodeid": strconv.Itoa(i + 1), "pve_addr": c.s.ip(node), "pve_fp": fingerprint(der), "quorum_votes": "1", "ring0_addr": c.s.ip(node)})
	}
	return map[string]any{"nodelist": members, "preferred_node": c.s.nodes()[0], "totem": totem, "config_digest": digestOf(members)}, nil
}

// replicator is a method for who may replicate the guest of a job.
func replicator(h handler) handler {
	return func(c *call) (any, error) {
		guest, _, _ := strings.Cut(c.param("id"), "-")
		if err := c.s.need(c.who, "/vms/"+guest, "VM.Replicate"); err != nil {
			return nil, err
		}
		return h(c)
	}
}

// replicate refuses what cannot be: machines are here, or have nothing that replicates
// (PVE/API2/ReplicationConfig.pm).
func (c *call) replicate() (any, error) {
	guest, _, _ := strings.Cut(c.param("id"), "-")
	v, target := c.s.vms[atoi(guest)], c.param("target")
	switch {
	case v == nil:
		return nil, die("Guest '%s' does not exist.", guest)
	case c.s.hosts[target] == nil || len(c.s.hosts) == 1: // who is alone has no members
		return nil, die("Target '%s' does not exist.", target)
	case c.p.has("source") && c.param("source") != v.node:
		return nil, die("Source '%s' does not match current node of guest '%s' (%s)", c.param("source"), guest, v.node)
	case target == v.node:
		return nil, die("Source and target must not be identical")
	}
	return nil, die("No replicatable volumes found")
}

func (c *call) storageIdentity() (any, error) {
	if _, err := c.storage(); err != nil {
		return nil, err
	}
	return nil, die("get_identity not implemented for this plugin at /usr/share/perl5/PVE/Storage/Plugin.pm line 2681.")
}
