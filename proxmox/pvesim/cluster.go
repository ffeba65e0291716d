package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

func (c *call) versionInfo() (any, error) {
	major, _, _ := strings.Cut(c.s.version, ".")
	minor, _, _ := strings.Cut(strings.TrimPrefix(c.s.version, major+"."), ".")
	return map[string]any{"version": c.s.version, "release": major + "." + minor, "repoid": "14a22df3"}, nil
}

func (c *call) nextID() (any, error) {
	if c.p.has("vmid") {
		id := c.vmid()
		if c.s.vms[id] != nil {
			return nil, badParam("vmid", fmt.Sprintf("VM %d already exists", id))
		}
		return itoa(id), nil
	}
	id := c.s.freeID()
	if _, upper := c.s.idRange(); c.s.vms[id] != nil || id >= upper {
		lower, _ := c.s.idRange()
		return nil, die("unable to get any free VMID in range [%d, %d]", lower, upper-1)
	}
	return itoa(id), nil
}

func (s *Sim) freeID() int {
	id, upper := s.idRange()
	for s.vms[id] != nil && id < upper {
		id++
	}
	return id
}

// sorted returns the VMs by ID.
func (s *Sim) sorted() []*vm {
	out := slices.Collect(maps.Values(s.vms))
	slices.SortFunc(out, func(a, b *vm) int { return a.id - b.id })
	return out
}

// resources is everything at one look. What one may not see is left out.
func (c *call) resources() (any, error) {
	want := c.param("type")
	out := []any{}
	if want == "" || want == "vm" {
		for _, v := range c.s.sorted() {
			if c.s.can(c.who, "/vms/"+itoa(v.id), "VM.Audit") {
				out = append(out, c.s.resource(v))
			}
		}
	}
	if want == "" {
		for _, id := range sortedKeys(c.s.pools) {
			if c.s.can(c.who, "/pool/"+id, "Pool.Audit") {
				out = append(out, map[string]any{"type": "pool", "id": "/pool/" + id, "pool": id})
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
				st := c.s.hosts[node].storages[name]
				out = append(out, map[string]any{"type": "storage", "id": "storage/" + node + "/" + name, "node": node, "storage": name, "plugintype": st.Type,
					"status": "available", "shared": boolInt(st.Shared), "content": strings.Join(st.Content, ","), "maxdisk": int64(st.Size), "disk": st.usedBytes()})
			}
		}
	}
	return out, nil
}

func (s *Sim) resource(v *vm) map[string]any {
	conf := v.wanted()
	r := map[string]any{
		"type": "qemu", "id": "qemu/" + itoa(v.id), "vmid": v.id, "node": v.node, "name": conf["name"], "status": s.status(v, true),
		"template": boolInt(v.template()), "maxcpu": v.cpus(), "maxmem": v.memory(), "maxdisk": v.diskSize(s), "disk": 0, "diskread": 0,
		"diskwrite": 0, "netin": 0, "netout": 0, "cpu": 0, "mem": 0, "memhost": 0, "uptime": 0,
	}
	if !s.nine() {
		delete(r, "memhost")
	}
	if v.running {
		r["uptime"], r["mem"] = int(time.Since(v.since)/time.Second), v.memory()/2
	}
	for _, k := range []string{"tags", "lock"} {
		if conf[k] != "" {
			r[k] = conf[k]
		}
	}
	if v.pool != "" {
		r["pool"] = v.pool
	}
	return r
}
