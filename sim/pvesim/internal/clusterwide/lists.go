package clusterwide

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func nextID(c *world.Call) (any, error) {
	if c.Params.Has("vmid") {
		id := c.VMID()
		if c.State.VMIDConflict(id) != "" {
			return nil, answer.BadParam("vmid", fmt.Sprintf("VM %d already exists", id))
		}
		return strconv.Itoa(id), nil
	}
	id := c.State.FreeID()
	if _, upper := c.State.IDRange(); c.State.VMIDConflict(id) != "" || id >= upper {
		lower, _ := c.State.IDRange()
		return nil, answer.Die("unable to get any free VMID in range [%d, %d]", lower, upper-1)
	}
	return strconv.Itoa(id), nil
}

// resources is everything at one look. What one may not see is left out.
func resources(c *world.Call) (any, error) {
	want := c.Param("type")
	out := []any{}
	ha := c.State.Entries(world.Register{Path: "/cluster/ha/resources"})
	if want == "" || want == "vm" {
		for _, v := range c.State.VMsByID() {
			if !access.Can(c.State, c.Who, "/vms/"+strconv.Itoa(v.ID), "VM.Audit") {
				continue
			}
			e := c.State.Resource(v)
			if sid := "vm:" + strconv.Itoa(v.ID); ha[sid] != nil {
				e["hastate"] = entry(c, world.Register{Path: "/cluster/ha/resources", ID: "sid"}, sid)["state"]
			}
			out = append(out, e)
		}
		for _, id := range slices.Sorted(maps.Keys(c.State.Containers)) {
			if access.Can(c.State, c.Who, "/vms/"+strconv.Itoa(id), "VM.Audit") {
				out = append(out, world.ContainerFigures(c.State.Containers[id]))
			}
		}
	}
	if want == "" {
		for _, id := range slices.Sorted(maps.Keys(c.State.Pools)) {
			if access.Can(c.State, c.Who, "/pool/"+id, "Pool.Audit") {
				out = append(out, poolResource(c.State, id))
			}
		}
	}
	if want == "" || want == "node" {
		for _, node := range c.State.Nodes() {
			out = append(out, nodes.NodeFigures(c, node, map[string]any{"cgroup-mode": 2}))
		}
	}
	if want == "" || want == "storage" {
		for _, node := range c.State.Nodes() {
			for _, name := range slices.Sorted(maps.Keys(c.State.Hosts[node].Stores)) {
				if !access.Can(c.State, c.Who, "/storage/"+name, "Datastore.Audit") {
					continue
				}
				if st := c.State.Hosts[node].Stores[name]; !st.Disabled {
					out = append(out, storageResource(c.State, node, st))
				}
			}
		}
	}
	if want == "" && c.State.IsNine() && access.Can(c.State, c.Who, "/sdn/zones/localnetwork", "SDN.Audit") {
		for _, node := range c.State.Nodes() {
			out = append(out, map[string]any{"type": "network", "id": "network/" + node + "/zone/localnetwork", "network-type": "zone",
				"network": "localnetwork", "node": node, "status": "ok"})
		}
	}
	return out, nil
}

// storageResource is a storage among all resources: nothing is known of one that no
// round of pvestatd has met yet, or met without finding it.
func storageResource(s *world.State, node string, st *world.Storage) map[string]any {
	e := map[string]any{"type": "storage", "id": "storage/" + node + "/" + st.Name, "node": node, "storage": st.Name, "plugintype": st.Type,
		"status": "unknown", "shared": answer.Flag(st.Shared), "content": st.Contents()}
	if s.Round == 0 || s.ToldStorages[node+"/"+st.Name] {
		e["status"], e["maxdisk"], e["disk"] = "available", int64(st.Size), st.UsedBytes()
	}
	return e
}

// poolResource is a pool among all resources, with the sums of its running machines.
func poolResource(s *world.State, id string) map[string]any {
	e := map[string]any{"type": "pool", "id": "/pool/" + id, "pool": id}
	sums := map[string]int64{}
	for _, v := range s.VMsByID() {
		r := s.Resource(v)
		if v.Pool != id || fmt.Sprint(r["uptime"]) == "0" || r["uptime"] == nil {
			continue
		}
		for _, k := range []string{"mem", "maxmem", "maxcpu"} {
			n, _ := strconv.ParseInt(fmt.Sprint(r[k]), 10, 64)
			sums[k] += n
			e[k] = sums[k]
		}
		e["cpu"] = 0
		e["uptime"] = max(schema.Atoi(fmt.Sprint(e["uptime"])), schema.Atoi(fmt.Sprint(r["uptime"])))
	}
	return e
}
