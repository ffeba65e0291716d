package pvesim

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
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
	return itoa(c.s.freeID()), nil
}

func (s *Sim) freeID() int {
	id := 100
	for s.vms[id] != nil {
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

func (s *Sim) uptime() int { return int(time.Since(s.began)/time.Second) + 86400 }

func (s *Sim) usedMemory(node string) int64 {
	n := int64(2 * GiB)
	for _, v := range s.vms {
		if v.running && v.node == node {
			n += v.memory()
		}
	}
	return n
}

// nodeFigures are what pvestatd has to say about a node; who may not see them
// gets none and no error.
func (c *call) nodeFigures(node string, entry map[string]any) map[string]any {
	entry["node"], entry["status"], entry["type"], entry["id"], entry["level"] = node, "online", "node", "node/"+node, ""
	h := c.s.hosts[node]
	if h == nil || !c.s.can(c.who, "/nodes/"+node, "Sys.Audit") {
		return entry
	}
	entry["maxcpu"], entry["cpu"], entry["uptime"] = h.CPUs, 0.01, c.s.uptime()
	entry["maxmem"], entry["mem"] = int64(h.Memory), c.s.usedMemory(node)
	entry["maxdisk"], entry["disk"] = int64(100*GiB), int64(8*GiB)
	return entry
}

func (c *call) listNodes() (any, error) {
	out := []any{}
	for _, node := range c.s.nodes() {
		out = append(out, c.nodeFigures(node, map[string]any{"ssl_fingerprint": "00:11"}))
	}
	return out, nil
}

func (c *call) nodeStatus() (any, error) {
	h := c.host()
	used := c.s.usedMemory(h.Name)
	numa := max(1, h.NUMANodes)
	return map[string]any{
		"uptime": c.s.uptime(), "cpu": 0.01, "wait": 0, "idle": 0, "loadavg": []string{"0.20", "0.15", "0.10"},
		"pveversion": "pve-manager/" + c.s.version + "/14a22df3", "kversion": "Linux 6.17.4-1-pve #1 SMP PREEMPT_DYNAMIC",
		"cpuinfo": map[string]any{"cpus": h.CPUs, "sockets": numa, "cores": h.CPUs / numa / 2, "model": h.CPUModel, "mhz": "2800.000", "hvm": "1", "user_hz": 100},
		"memory":  map[string]any{"total": int64(h.Memory), "used": used, "free": int64(h.Memory) - used, "available": int64(h.Memory) - used},
		"swap":    map[string]any{"total": 0, "used": 0, "free": 0},
		"rootfs":  map[string]any{"total": int64(100 * GiB), "used": int64(8 * GiB), "free": int64(92 * GiB), "avail": int64(92 * GiB)},
		"ksm":     map[string]any{"shared": 0}, "boot-info": map[string]any{"mode": "efi", "secureboot": 0},
		"current-kernel": map[string]any{"sysname": "Linux", "release": "6.17.4-1-pve", "version": "#1 SMP PREEMPT_DYNAMIC", "machine": "x86_64"},
	}, nil
}

func (c *call) clusterStatus() (any, error) {
	out := []any{}
	if len(c.s.hosts) > 1 {
		out = append(out, map[string]any{"type": "cluster", "id": "cluster", "name": "lab", "nodes": len(c.s.hosts), "quorate": 1, "version": 1})
	}
	for i, node := range c.s.nodes() {
		out = append(out, map[string]any{"type": "node", "id": "node/" + node, "name": node, "nodeid": i + 1, "online": 1, "local": boolInt(i == 0),
			"ip": fmt.Sprintf("192.0.2.%d", i+1), "level": ""})
	}
	return out, nil
}

func (c *call) listNetwork() (any, error) {
	out := []any{map[string]any{"iface": "eno1", "type": "eth", "active": 1, "exists": 1, "method": "manual", "method6": "manual", "families": []string{"inet"}, "priority": 3}}
	if t := c.param("type"); t != "" && t != "eth" {
		out = out[:0]
	}
	for i, b := range c.host().Bridges {
		if t := c.param("type"); t != "" && t != "bridge" && !strings.HasPrefix(t, "any_") && t != "include_sdn" {
			continue
		}
		if !c.s.canAny(c.who, "/sdn/zones/localnetwork/"+b, "SDN.Audit", "SDN.Use") {
			continue
		}
		out = append(out, map[string]any{"iface": b, "type": "bridge", "active": 1, "autostart": 1, "bridge_ports": "eno1", "bridge_stp": "off", "bridge_fd": "0",
			"method": "static", "method6": "manual", "address": fmt.Sprintf("192.0.2.%d", i+1), "netmask": "24", "cidr": fmt.Sprintf("192.0.2.%d/24", i+1),
			"families": []string{"inet"}, "priority": 4 + i})
	}
	return out, nil
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

// login gives out a ticket. Wrong passwords wait as wrong tickets do.
func (c *call) login() (any, error) {
	name := c.param("username")
	if realm := c.param("realm"); realm != "" {
		name += "@" + realm
	}
	u, known := c.s.access.users[name]
	if !known || u.Password == "" || u.Password != c.param("password") {
		if c.s.wait(unauthorizedDelay, nil) != nil {
			return nil, errDropped
		}
		return nil, &apiError{status: http.StatusUnauthorized, text: "authentication failure"}
	}
	var b [24]byte
	_, _ = rand.Read(b[:])
	id := fmt.Sprintf("PVE:%s:%08X::%s", name, time.Now().Unix(), hex.EncodeToString(b[:]))
	t := ticket{user: name, csrf: fmt.Sprintf("%08X:%s", time.Now().Unix(), hex.EncodeToString(b[:12]))}
	c.s.access.tickets[id] = t
	return map[string]any{"ticket": id, "username": name, "CSRFPreventionToken": t.csrf, "cap": map[string]any{}}, nil
}
