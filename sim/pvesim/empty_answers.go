package pvesim

import (
	_ "embed"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// nothingYAML says what methods answer about things that there are none of.
//
//go:embed nothing.yaml
var nothingYAML []byte

// refusalsYAML says how methods refuse to do something with what there is not.
//
//go:embed refusals.yaml
var refusalsYAML []byte

func nothingHandlers() map[string]world.Handler {
	answers := map[string]any{}
	if err := yaml.Unmarshal(nothingYAML, &answers); err != nil {
		panic("pvesim: embedded nothing.yaml: " + err.Error())
	}
	out := map[string]world.Handler{
		"GET /nodes/{node}/disks/smart": func(*world.Call) (any, error) {
			return nil, answer.Die("not a valid block device")
		},
		"GET /nodes/{node}/apt/changelog": func(c *world.Call) (any, error) { // there is no repository
			return "E: Unable to locate package " + c.Param("name") + "\nE: No packages found\nRC: 100", nil
		},
		"GET /cluster/config/nodes": corosyncNodes,
		"GET /cluster/config/totem": totem,
		"GET /cluster/config/join":  joinInfo,
		"GET /cluster/backup/{id}":  func(c *world.Call) (any, error) { return nil, answer.BadParam("id", "No such job '"+c.Param("id")+"'") },
	}
	for name, answer := range answers {
		out[name] = func(*world.Call) (any, error) { return answer, nil }
	}
	for _, one := range []struct{ path, param, text string }{
		{"/cluster/replication/{id}", "id", "no such replication job '%s'"},
		{"/cluster/sdn/controllers/{controller}", "controller", "sdn '%s' does not exist"},
		{"/cluster/sdn/fabrics/fabric/{id}", "id", "fabric '%s' does not exist in configuration"},
		{"/cluster/sdn/dns/{dns}", "dns", "sdn '%s' does not exist"},
	} {
		out["GET "+one.path] = func(c *world.Call) (any, error) { return nil, answer.Die(one.text, c.Param(one.param)) }
	}
	return out
}

// refusers answer for methods that are not served, as there is nothing that they could
// be about. Who asks what is served does not hear of them.
func refusers() map[string]world.Handler {
	out := map[string]world.Handler{
		"POST /access/openid/login": func(c *world.Call) (any, error) { // nobody has asked OpenID's server before
			if c.State.Wait(access.UnauthorizedDelay, nil) != nil {
				return nil, answer.ErrDropped
			}
			return nil, answer.Fail(http.StatusUnauthorized, "authentication failure")
		},
		"GET /nodes/{node}/qemu/{vmid}/mtunnelwebsocket": func(*world.Call) (any, error) {
			return nil, answer.Fail(http.StatusUnauthorized, "permission denied - invalid PVETUNNEL ticket")
		},
		"POST /nodes/{node}/qemu/{vmid}/mtunnel": func(c *world.Call) (any, error) {
			if v := c.State.VMs[c.VMID()]; v != nil {
				return nil, answer.BadParam("vmid", fmt.Sprintf("unable to create empty VM config - VM %d already exists on node '%s'\n", v.ID, v.Node))
			}
			return notHere(c)
		},
	}
	refusals := struct {
		Refuse map[string]string `yaml:"refuse"`
		Wrong  map[string]string `yaml:"wrong"`
	}{}
	if err := yaml.Unmarshal(refusalsYAML, &refusals); err != nil {
		panic("pvesim: embedded refusals.yaml: " + err.Error())
	}
	for name, text := range refusals.Refuse {
		out[name] = func(c *world.Call) (any, error) {
			return nil, answer.Fail(http.StatusInternalServerError, request.Fill(text, c.Params))
		}
	}
	for _, name := range []string{"PUT /cluster/replication/{id}", "DELETE /cluster/replication/{id}", "POST /nodes/{node}/replication/{id}/schedule_now"} {
		out[name] = replicator(out[name])
	}
	for name, text := range refusals.Wrong {
		param, text, _ := strings.Cut(text, ": ")
		out[name] = func(c *world.Call) (any, error) { return nil, answer.BadParam(param, request.Fill(text, c.Params)) }
	}
	return out
}

// corosyncNodes are the members of the cluster; who is alone is in none.
func corosyncNodes(c *world.Call) (any, error) {
	out := []any{}
	if len(c.State.Hosts) == 1 {
		return out, nil
	}
	for i, node := range c.State.Nodes() {
		out = append(out, map[string]any{"node": node, "name": node, "nodeid": strconv.Itoa(i + 1), "quorum_votes": "1",
			"ring0_addr": c.State.IP(node)})
	}
	return out, nil
}

func totem(c *world.Call) (any, error) {
	if len(c.State.Hosts) == 1 {
		return nil, nil
	}
	return map[string]any{"cluster_name": "lab", "config_version": "1", "interface": map[string]any{"0": map[string]any{"linknumber": "0"}},
		"ip_version": "ipv4-6", "link_mode": "passive", "secauth": "on", "version": "2"}, nil
}

// joinInfo is what another node needs to join the cluster.
func joinInfo(c *world.Call) (any, error) {
	if len(c.State.Hosts) == 1 {
		return nil, &answer.Error{Status: http.StatusFailedDependency, Text: "node is not in a cluster, no join info available!", Unended: true}
	}
	totem, err := totem(c)
	if err != nil {
		return nil, err
	}
	der, err := nodes.Certificate(c.State)
	if err != nil {
		return nil, err
	}
	members := []any{}
	for i, node := range c.State.Nodes() {
		members = append(members, map[string]any{"name": node, "nodeid": strconv.Itoa(i + 1), "pve_addr": c.State.IP(node), "pve_fp": nodes.Fingerprint(der), "quorum_votes": "1", "ring0_addr": c.State.IP(node)})
	}
	return map[string]any{"nodelist": members, "preferred_node": c.State.Nodes()[0], "totem": totem,
		"config_digest": world.DigestOf(members)}, nil
}

// replicator is a method for who may replicate the guest of a job.
func replicator(h world.Handler) world.Handler {
	return func(c *world.Call) (any, error) {
		guest, _, _ := strings.Cut(c.Param("id"), "-")
		if err := access.Need(c.State, c.Who, "/vms/"+guest, "VM.Replicate"); err != nil {
			return nil, err
		}
		return h(c)
	}
}
