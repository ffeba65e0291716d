package pvesim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

func fabricHandlers() map[string]handler {
	const (
		fabrics, fabric = "/cluster/sdn/fabrics/fabric", "/cluster/sdn/fabrics/fabric/{id}"
		nodes, node     = "/cluster/sdn/fabrics/node/{fabric_id}", "/cluster/sdn/fabrics/node/{fabric_id}/{node_id}"
	)
	return map[string]handler{
		"GET /cluster/sdn/fabrics/all":  (*call).listAllFabrics,
		"GET " + fabrics:                (*call).listEveryFabric,
		"POST " + fabrics:               (*call).addFabric,
		"GET " + fabric:                 (*call).getFabric,
		"PUT " + fabric:                 (*call).updateFabric,
		"DELETE " + fabric:              (*call).deleteFabric,
		"GET /cluster/sdn/fabrics/node": (*call).listEveryFabricNode,
		"GET " + nodes:                  (*call).listNodesOfFabric,
		"POST " + nodes:                 (*call).addFabricNode,
		"GET " + node:                   (*call).getFabricNode,
		"PUT " + node:                   (*call).updateFabricNode,
		"DELETE " + node:                (*call).deleteFabricNode,
	}
}

// fabricDigest is that of fabrics and their nodes together.
func (s *sdnState) fabricDigest() string {
	text, err := json.Marshal([]sdnSections{s.configured(sdnFabrics), s.configured(sdnNodes)})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// withDigest is an entry as it is read; what runs has no digest.
func (c *call) withDigest(e map[string]any) map[string]any {
	e = maps.Clone(e)
	if !c.p.bool("running") {
		e["digest"] = c.s.sdn.fabricDigest()
	}
	return e
}

// listFabrics leaves the digest out where nothing but the configuration is asked for: the
// method looks for it in the wrong place (PVE/API2/Network/SDN/Fabrics/Fabric.pm).
func (c *call) listFabrics() []any {
	out := []any{}
	all := c.read(sdnFabrics)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if !c.s.canAny(c.who, "/sdn/fabrics/"+id, "SDN.Audit", "SDN.Allocate") {
			continue
		}
		e := c.withDigest(all[id])
		if !c.p.bool("pending") && c.route != "GET /cluster/sdn/fabrics/all" {
			delete(e, "digest")
		}
		out = append(out, e)
	}
	return out
}

// listFabricNodes are the nodes of one fabric, or of all where there is no ID.
func (c *call) listFabricNodes(fabric string) []any {
	out := []any{}
	all := c.read(sdnNodes)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		of, node, _ := strings.Cut(id, "_")
		if fabric != "" && of != fabric || fabric == "" && !c.s.canAny(c.who, "/sdn/fabrics/"+of, "SDN.Audit", "SDN.Allocate") ||
			!c.s.canAny(c.who, "/nodes/"+node, "Sys.Audit", "Sys.Modify") {
			continue
		}
		out = append(out, c.withDigest(all[id]))
	}
	return out
}

func (c *call) listEveryFabric() (any, error) { return c.listFabrics(), nil }

func (c *call) listEveryFabricNode() (any, error) { return c.listFabricNodes(""), nil }

func (c *call) listAllFabrics() (any, error) {
	return map[string]any{"fabrics": c.listFabrics(), "nodes": c.listFabricNodes("")}, nil
}

func noFabric(id string) error { return die("fabric '%s' does not exist in configuration", id) }

func (c *call) listNodesOfFabric() (any, error) {
	id := c.param("fabric_id")
	if c.s.sdn.configured(sdnFabrics)[id] == nil {
		return nil, noFabric(id)
	}
	return c.listFabricNodes(id), nil
}

// getFabric tells what is configured, whatever else is asked for.
func (c *call) getFabric() (any, error) {
	id := c.param("id")
	e := c.s.sdn.configured(sdnFabrics)[id]
	if e == nil {
		return nil, noFabric(id)
	}
	delete(c.p, "running")
	return c.withDigest(e), nil
}

func (c *call) getFabricNode() (any, error) {
	key, err := c.fabricNode()
	if err != nil {
		return nil, err
	}
	delete(c.p, "running")
	return c.withDigest(c.s.sdn.configured(sdnNodes)[key]), nil
}

// fabricNode is the key of the node that a call is about, which has to be there.
func (c *call) fabricNode() (string, error) {
	fabric, node := c.param("fabric_id"), c.param("node_id")
	if c.s.sdn.configured(sdnFabrics)[fabric] == nil {
		return "", noFabric(fabric)
	}
	key := fabric + "_" + node
	if c.s.sdn.configured(sdnNodes)[key] == nil {
		return "", die("node '%s' does not exist in fabric '%s'", node, fabric)
	}
	return key, nil
}

// inFabrics changes fabrics and nodes, and undoes it where what comes out is not right.
func (c *call) inFabrics(what string, do func(fabrics, nodes sdnSections) error) error {
	return c.inSDN(what, func() error {
		sdn := &c.s.sdn
		if err := c.checkDigest(sdn.fabricDigest()); err != nil {
			return err
		}
		fabrics, nodes := maps.Clone(sdn.configured(sdnFabrics)), maps.Clone(sdn.configured(sdnNodes))
		if err := do(fabrics, nodes); err != nil {
			return err
		}
		if err := checkFabrics(fabrics, nodes); err != nil {
			return err
		}
		sdn.config[sdnFabrics], sdn.config[sdnNodes] = fabrics, nodes
		return nil
	})
}

// fabricSection puts into an entry what a call says, as far as its protocol knows it.
func (c *call) fabricSection(file string, e map[string]any) {
	protocol, _ := e["protocol"].(string)
	about := sectionTypeOf(file, protocol)
	for name, value := range c.section("id", "protocol", "lock-token", "fabric_id", "node_id") {
		_, known := about.options[name]
		switch {
		case !known:
		case name == "interfaces":
			e[name] = c.interfacesOf(protocol)
		case strings.HasSuffix(name, "_interval"):
			e[name] = atoi(value)
		default:
			e[name] = value
		}
	}
	for _, name := range c.p["delete"] { // what has to be there stays
		if !about.options[name].optional {
			continue
		}
		delete(e, name)
		if name == "interfaces" {
			e[name] = []string{}
		}
	}
}

// interfacesOf are a node's interfaces, with their keys in the order in which they are written.
func (c *call) interfacesOf(protocol string) []string {
	out := []string{}
	keys := c.spec.Parameters["interfaces"].of(protocol).Items.Format.Keys
	for _, text := range c.p["interfaces"] {
		one, err := parseProps(keys, text)
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

func (c *call) addFabric() (any, error) {
	id := c.param("id")
	return nil, c.inFabrics("adding fabric failed", func(fabrics, _ sdnSections) error {
		e := map[string]any{"id": id, "protocol": c.param("protocol")}
		c.fabricSection("fabric", e)
		if e["protocol"] == "ospf" && e["area"] == nil {
			return die("missing field `area`")
		}
		if fabrics[id] != nil {
			return die("fabric '%s' already exists in config", id)
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

func (c *call) updateFabric() (any, error) {
	id := c.param("id")
	return nil, c.inFabrics("updating fabric failed", func(fabrics, _ sdnSections) error {
		if fabrics[id] == nil {
			return noFabric(id)
		}
		e := maps.Clone(fabrics[id])
		if e["protocol"] != c.param("protocol") {
			return errProtocol()
		}
		c.fabricSection("fabric", e)
		fabrics[id] = e
		return nil
	})
}

func errProtocol() error { return die("node has a different protocol than the referenced fabric") }

// deleteFabric deletes its nodes with it, unless a controller depends on it.
func (c *call) deleteFabric() (any, error) {
	id := c.param("id")
	return nil, c.inFabrics("deleting fabric failed", func(fabrics, nodes sdnSections) error {
		if fabrics[id] == nil {
			return noFabric(id)
		}
		maps.DeleteFunc(nodes, func(key string, _ map[string]any) bool { return strings.HasPrefix(key, id+"_") })
		controllers := c.s.sdn.configured(sdnControllers)
		for _, key := range slices.Sorted(maps.Keys(controllers)) {
			if controllers[key]["fabric"] == id {
				return die(`this fabric is still used in the EVPN controller "%s" at /usr/share/perl5/PVE/API2/Network/SDN/Fabrics/Fabric.pm line 243.`, key)
			}
		}
		delete(fabrics, id)
		return nil
	})
}

func (c *call) addFabricNode() (any, error) {
	fabric, node := c.param("fabric_id"), c.param("node_id")
	return nil, c.inFabrics("adding node failed", func(fabrics, nodes sdnSections) error {
		e := map[string]any{"fabric_id": fabric, "node_id": node, "protocol": c.param("protocol"), "interfaces": []string{}}
		c.fabricSection("fabric-node", e)
		key := fabric + "_" + node
		switch {
		case fabrics[fabric] == nil:
			return noFabric(fabric)
		case fabrics[fabric]["protocol"] != e["protocol"]:
			return errProtocol()
		case nodes[key] != nil:
			return die("node '%s' already exists in config for fabric %s", key, fabric)
		}
		nodes[key] = e
		return nil
	})
}

func (c *call) updateFabricNode() (any, error) {
	return nil, c.inFabrics("updating node failed", func(_, nodes sdnSections) error {
		key, err := c.fabricNode()
		if err != nil {
			return err
		}
		e := maps.Clone(nodes[key])
		if e["protocol"] != c.param("protocol") {
			return errProtocol()
		}
		c.fabricSection("fabric-node", e)
		nodes[key] = e
		return nil
	})
}

func (c *call) deleteFabricNode() (any, error) {
	return nil, c.inFabrics("deleting node failed", func(_, nodes sdnSections) error {
		key, err := c.fabricNode()
		delete(nodes, key)
		return err
	})
}
