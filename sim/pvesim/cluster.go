package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

func (c *call) nextID() (any, error) {
	if c.p.has("vmid") {
		id := c.vmid()
		if c.s.vms[id] != nil {
			return nil, badParam("vmid", fmt.Sprintf("VM %d already exists", id))
		}
		return strconv.Itoa(id), nil
	}
	id := c.s.freeID()
	if _, upper := c.s.idRange(); c.s.vms[id] != nil || id >= upper {
		lower, _ := c.s.idRange()
		return nil, die("unable to get any free VMID in range [%d, %d]", lower, upper-1)
	}
	return strconv.Itoa(id), nil
}

// resources is everything at one look. What one may not see is left out.
func (c *call) resources() (any, error) {
	want := c.param("type")
	out := []any{}
	ha := c.s.entries(register{path: "/cluster/ha/resources"})
	if want == "" || want == "vm" {
		for _, v := range c.s.sorted() {
			if !c.s.can(c.who, "/vms/"+strconv.Itoa(v.id), "VM.Audit") {
				continue
			}
			e := c.s.resource(v)
			if sid := "vm:" + strconv.Itoa(v.id); ha[sid] != nil {
				e["hastate"] = c.entry(register{path: "/cluster/ha/resources", id: "sid"}, sid)["state"]
			}
			out = append(out, e)
		}
	}
	if want == "" {
		for _, id := range slices.Sorted(maps.Keys(c.s.pools)) {
			if c.s.can(c.who, "/pool/"+id, "Pool.Audit") {
				out = append(out, c.s.poolResource(id))
			}
		}
	}
	if want == "" || want == "node" {
		for _, node := range c.s.nodes() {
			out = append(out, c.nodeFigures(node, map[string]any{"cgroup-mode": 2}))
		}
	}
	if want == "" || want == "storage" {
		for _, node := range c.s.nodes() {
			for _, name := range slices.Sorted(maps.Keys(c.s.hosts[node].storages)) {
				if !c.s.can(c.who, "/storage/"+name, "Datastore.Audit") {
					continue
				}
				if st := c.s.hosts[node].storages[name]; !st.Disabled {
					out = append(out, c.s.storageResource(node, st))
				}
			}
		}
	}
	if want == "" && c.s.nine() && c.s.can(c.who, "/sdn/zones/localnetwork", "SDN.Audit") {
		for _, node := range c.s.nodes() {
			out = append(out, map[string]any{"type": "network", "id": "network/" + node + "/zone/localnetwork", "network-type": "zone",
				"network": "localnetwork", "node": node, "status": "ok"})
		}
	}
	return out, nil
}

// storageResource is a storage among all resources: nothing is known of one that no
// round of pvestatd has met yet, or met without finding it.
func (s *state) storageResource(node string, st *storage) map[string]any {
	e := map[string]any{"type": "storage", "id": "storage/" + node + "/" + st.Name, "node": node, "storage": st.Name, "plugintype": st.Type,
		"status": "unknown", "shared": boolInt(st.Shared), "content": st.contents()}
	if s.round == 0 || s.toldStorages[node+"/"+st.Name] {
		e["status"], e["maxdisk"], e["disk"] = "available", int64(st.Size), st.usedBytes()
	}
	return e
}

// poolResource is a pool among all resources, with the sums of its running machines.
func (s *state) poolResource(id string) map[string]any {
	e := map[string]any{"type": "pool", "id": "/pool/" + id, "pool": id}
	sums := map[string]int64{}
	for _, v := range s.sorted() {
		r := s.resource(v)
		if v.pool != id || fmt.Sprint(r["uptime"]) == "0" || r["uptime"] == nil {
			continue
		}
		for _, k := range []string{"mem", "maxmem", "maxcpu"} {
			n, _ := strconv.ParseInt(fmt.Sprint(r[k]), 10, 64)
			sums[k] += n
			e[k] = sums[k]
		}
		e["cpu"] = 0
		e["uptime"] = max(atoi(fmt.Sprint(e["uptime"])), atoi(fmt.Sprint(r["uptime"])))
	}
	return e
}
