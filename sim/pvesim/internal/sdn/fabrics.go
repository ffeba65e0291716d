package sdn

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func fabricHandlers() map[string]world.Handler {
	const (
		fabrics, fabric = "/cluster/sdn/fabrics/fabric", "/cluster/sdn/fabrics/fabric/{id}"
		nodes, node     = "/cluster/sdn/fabrics/node/{fabric_id}", "/cluster/sdn/fabrics/node/{fabric_id}/{node_id}"
	)
	return map[string]world.Handler{
		"GET /cluster/sdn/fabrics/all":  listAllFabrics,
		"GET " + fabrics:                listEveryFabric,
		"POST " + fabrics:               addFabric,
		"GET " + fabric:                 getFabric,
		"PUT " + fabric:                 updateFabric,
		"DELETE " + fabric:              deleteFabric,
		"GET /cluster/sdn/fabrics/node": listEveryFabricNode,
		"GET " + nodes:                  listNodesOfFabric,
		"POST " + nodes:                 addFabricNode,
		"GET " + node:                   getFabricNode,
		"PUT " + node:                   updateFabricNode,
		"DELETE " + node:                deleteFabricNode,
	}
}

// fabricDigest is that of fabrics and their nodes together.
func fabricDigest(s *world.SDN) string {
	text, err := json.Marshal([]world.SDNSections{s.ConfigSections(sdnFabrics), s.ConfigSections(sdnNodes)})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// withDigest is an entry as it is read; what runs has no digest.
func withDigest(c *world.Call, e map[string]any) map[string]any {
	e = maps.Clone(e)
	if !c.Params.Bool("running") {
		e["digest"] = fabricDigest(&c.State.SDN)
	}
	return e
}

// listFabrics leaves the digest out where nothing but the configuration is asked for: the
// method looks for it in the wrong place (PVE/API2/Network/SDN/Fabrics/Fabric.pm).
func listFabrics(c *world.Call) []any {
	out := []any{}
	all := read(c, sdnFabrics)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if !access.CanAny(c.State, c.Who, "/sdn/fabrics/"+id, "SDN.Audit", "SDN.Allocate") {
			continue
		}
		e := withDigest(c, all[id])
		if !c.Params.Bool("pending") && c.Route != "GET /cluster/sdn/fabrics/all" {
			delete(e, "digest")
		}
		out = append(out, e)
	}
	return out
}

// listFabricNodes are the nodes of one fabric, or of all where there is no ID.
func listFabricNodes(c *world.Call, fabric string) []any {
	out := []any{}
	all := read(c, sdnNodes)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		of, node, _ := strings.Cut(id, "_")
		if fabric != "" && of != fabric || fabric == "" && !access.CanAny(c.State, c.Who, "/sdn/fabrics/"+of, "SDN.Audit", "SDN.Allocate") ||
			!access.CanAny(c.State, c.Who, "/nodes/"+node, "Sys.Audit", "Sys.Modify") {
			continue
		}
		out = append(out, withDigest(c, all[id]))
	}
	return out
}

func listEveryFabric(c *world.Call) (any, error) { return listFabrics(c), nil }

func listEveryFabricNode(c *world.Call) (any, error) { return listFabricNodes(c, ""), nil }

func listAllFabrics(c *world.Call) (any, error) {
	return map[string]any{"fabrics": listFabrics(c), "nodes": listFabricNodes(c, "")}, nil
}

func noFabric(id string) error { return answer.Die("fabric '%s' does not exist in configuration", id) }

func listNodesOfFabric(c *world.Call) (any, error) {
	id := c.Param("fabric_id")
	if c.State.SDN.ConfigSections(sdnFabrics)[id] == nil {
		return nil, noFabric(id)
	}
	return listFabricNodes(c, id), nil
}

// getFabric tells what is configured, whatever else is asked for.
func getFabric(c *world.Call) (any, error) {
	id := c.Param("id")
	e := c.State.SDN.ConfigSections(sdnFabrics)[id]
	if e == nil {
		return nil, noFabric(id)
	}
	delete(c.Params, "running")
	return withDigest(c, e), nil
}

func getFabricNode(c *world.Call) (any, error) {
	key, err := fabricNode(c)
	if err != nil {
		return nil, err
	}
	delete(c.Params, "running")
	return withDigest(c, c.State.SDN.ConfigSections(sdnNodes)[key]), nil
}

// fabricNode is the key of the node that a call is about, which has to be there.
func fabricNode(c *world.Call) (string, error) {
	fabric, node := c.Param("fabric_id"), c.Param("node_id")
	if c.State.SDN.ConfigSections(sdnFabrics)[fabric] == nil {
		return "", noFabric(fabric)
	}
	key := fabric + "_" + node
	if c.State.SDN.ConfigSections(sdnNodes)[key] == nil {
		return "", answer.Die("node '%s' does not exist in fabric '%s'", node, fabric)
	}
	return key, nil
}

// inFabrics changes fabrics and nodes, and undoes it where what comes out is not right.
func inFabrics(c *world.Call, what string, do func(fabrics, nodes world.SDNSections) error) error {
	return inSDN(c, what, func() error {
		sdn := &c.State.SDN
		if err := c.CheckDigest(fabricDigest(sdn)); err != nil {
			return err
		}
		fabrics, nodes := maps.Clone(sdn.ConfigSections(sdnFabrics)), maps.Clone(sdn.ConfigSections(sdnNodes))
		if err := do(fabrics, nodes); err != nil {
			return err
		}
		if err := checkFabrics(fabrics, nodes); err != nil {
			return err
		}
		sdn.Config[sdnFabrics], sdn.Config[sdnNodes] = fabrics, nodes
		return nil
	})
}

// fabricSection puts into an entry what a call says, as far as its protocol knows it.
func fabricSection(c *world.Call, file string, e map[string]any) {
	protocol, _ := e["protocol"].(string)
	about := schema.SectionOf(file, protocol)
	for name, value := range c.Section("id", "protocol", "lock-token", "fabric_id", "node_id") {
		_, known := about.Known[name]
		switch {
		case !known:
		case name == "interfaces":
			e[name] = interfacesOf(c, protocol)
		case strings.HasSuffix(name, "_interval"):
			e[name] = schema.Atoi(value)
		default:
			e[name] = value
		}
	}
	for _, name := range c.Params["delete"] { // what has to be there stays
		if !about.Known[name].Optional {
			continue
		}
		delete(e, name)
		if name == "interfaces" {
			e[name] = []string{}
		}
	}
}

// interfacesOf are a node's interfaces, with their keys in the order in which they are written.
func interfacesOf(c *world.Call, protocol string) []string {
	out := []string{}
	keys := c.Spec.Parameters["interfaces"].ForKind(protocol).Items.Format.Keys
	for _, text := range c.Params["interfaces"] {
		one, err := schema.ParseProps(keys, text)
		if err != nil {
			continue // was refused before
		}
		var parts []string
		for _, key := range []string{"name", "hello_multiplier", "ip", "ip6"} {
			if one[key] != "" {
				parts = append(parts, key+"="+one[key])
			}
		}
		out = append(out, strings.Join(parts, ","))
	}
	return out
}

func addFabric(c *world.Call) (any, error) {
	id := c.Param("id")
	return nil, inFabrics(c, "adding fabric failed", func(fabrics, _ world.SDNSections) error {
		e := map[string]any{"id": id, "protocol": c.Param("protocol")}
		fabricSection(c, "fabric", e)
		if e["protocol"] == "ospf" && e["area"] == nil {
			return answer.Die("missing field `area`")
		}
		if fabrics[id] != nil {
			return answer.Die("fabric '%s' already exists in config", id)
		}
		for _, key := range []string{"ip_prefix", "ip6_prefix"} {
			if prefix := prefixOf(e, key); prefix.IsValid() {
				e[key] = prefix.Masked().String()
			}
		}
		fabrics[id] = e
		return nil
	})
}

func updateFabric(c *world.Call) (any, error) {
	id := c.Param("id")
	return nil, inFabrics(c, "updating fabric failed", func(fabrics, _ world.SDNSections) error {
		if fabrics[id] == nil {
			return noFabric(id)
		}
		e := maps.Clone(fabrics[id])
		if e["protocol"] != c.Param("protocol") {
			return errProtocol()
		}
		fabricSection(c, "fabric", e)
		fabrics[id] = e
		return nil
	})
}

func errProtocol() error {
	return answer.Die("node has a different protocol than the referenced fabric")
}

// deleteFabric deletes its nodes with it, unless a controller depends on it.
func deleteFabric(c *world.Call) (any, error) {
	id := c.Param("id")
	return nil, inFabrics(c, "deleting fabric failed", func(fabrics, nodes world.SDNSections) error {
		if fabrics[id] == nil {
			return noFabric(id)
		}
		maps.DeleteFunc(nodes, func(key string, _ map[string]any) bool { return strings.HasPrefix(key, id+"_") })
		controllers := c.State.SDN.ConfigSections(sdnControllers)
		for _, key := range slices.Sorted(maps.Keys(controllers)) {
			if controllers[key]["fabric"] == id {
				return answer.Die(`this fabric is still used in the EVPN controller "%s" at /usr/share/perl5/PVE/API2/Network/SDN/Fabrics/Fabric.pm line 243.`, key)
			}
		}
		delete(fabrics, id)
		return nil
	})
}

func addFabricNode(c *world.Call) (any, error) {
	fabric, node := c.Param("fabric_id"), c.Param("node_id")
	return nil, inFabrics(c, "adding node failed", func(fabrics, nodes world.SDNSections) error {
		e := map[string]any{"fabric_id": fabric, "node_id": node, "protocol": c.Param("protocol"), "interfaces": []string{}}
		fabricSection(c, "fabric-node", e)
		key := fabric + "_" + node
		switch {
		case fabrics[fabric] == nil:
			return noFabric(fabric)
		case fabrics[fabric]["protocol"] != e["protocol"]:
			return errProtocol()
		case nodes[key] != nil:
			return answer.Die("node '%s' already exists in config for fabric %s", key, fabric)
		}
		nodes[key] = e
		return nil
	})
}

func updateFabricNode(c *world.Call) (any, error) {
	return nil, inFabrics(c, "updating node failed", func(_, nodes world.SDNSections) error {
		key, err := fabricNode(c)
		if err != nil {
			return err
		}
		e := maps.Clone(nodes[key])
		if e["protocol"] != c.Param("protocol") {
			return errProtocol()
		}
		fabricSection(c, "fabric-node", e)
		nodes[key] = e
		return nil
	})
}

func deleteFabricNode(c *world.Call) (any, error) {
	return nil, inFabrics(c, "deleting node failed", func(_, nodes world.SDNSections) error {
		key, err := fabricNode(c)
		delete(nodes, key)
		return err
	})
}
