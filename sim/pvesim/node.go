package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

func nodeHandlers() map[string]handler {
	const node = "/nodes/{node}"
	return map[string]handler{
		"GET /version":                                 (*call).versionInfo,
		"GET /cluster/status":                          (*call).clusterStatus,
		"GET /nodes":                                   (*call).listNodes,
		"GET " + node + "/status":                      (*call).nodeStatus,
		"GET " + node + "/apt/update":                  func(*call) (any, error) { return []any{}, nil },
		"GET " + node + "/apt/versions":                (*call).packages,
		"GET " + node + "/version":                     (*call).versionInfo,
		"GET " + node + "/subscription":                (*call).subscription,
		"GET " + node + "/certificates/info":           (*call).certificates,
		"GET " + node + "/rrddata":                     (*call).nodeHistory,
		"GET " + node + "/disks/list":                  (*call).nodeDisks,
		"GET " + node + "/hardware/usb":                func(*call) (any, error) { return []any{}, nil },
		"GET " + node + "/capabilities/qemu/cpu":       (*call).cpuModels,
		"GET " + node + "/capabilities/qemu/cpu-flags": (*call).cpuFlags,
		"GET " + node + "/capabilities/qemu/machines":  (*call).machines,
	}
}

func (s *state) uptime() int { return int(time.Since(s.began)/time.Second) + 86400 }

// nodeFigures are what pvestatd has to say about a node; who may not see them
// gets none and no error.
func (c *call) nodeFigures(node string, entry map[string]any) map[string]any {
	entry["node"], entry["status"], entry["type"], entry["id"], entry["level"] = node, "online", "node", "node/"+node, ""
	h := c.s.hosts[node]
	if h != nil && h.Offline {
		entry["status"] = "offline"
		return entry
	}
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
		der, err := c.s.certificate()
		if err != nil {
			return nil, err
		}
		out = append(out, c.nodeFigures(node, map[string]any{"ssl_fingerprint": fingerprint(der)}))
	}
	return out, nil
}

func (c *call) nodeStatus() (any, error) {
	h := c.host()
	used := c.s.usedMemory(h.Name)
	numa := max(1, h.NUMANodes)
	const build = "#1 SMP PREEMPT_DYNAMIC"
	free := max(0, int64(h.Memory)-used)
	return map[string]any{
		"uptime": c.s.uptime(), "cpu": 0.01, "wait": 0, "idle": 0, "loadavg": []string{"0.20", "0.15", "0.10"},
		"pveversion": "pve-manager/" + c.s.version + "/14a22df3", "kversion": "Linux " + h.kernel() + " " + build,
		"cpuinfo": map[string]any{"cpus": h.CPUs, "sockets": numa, "cores": h.CPUs / numa / 2, "model": h.CPUModel, "mhz": "2800.000", "hvm": "1", "user_hz": 100},
		"memory":  map[string]any{"total": int64(h.Memory), "used": used, "free": free, "available": free},
		"swap":    map[string]any{"total": 0, "used": 0, "free": 0},
		"rootfs":  map[string]any{"total": int64(100 * GiB), "used": int64(8 * GiB), "free": int64(92 * GiB), "avail": int64(92 * GiB)},
		"ksm":     map[string]any{"shared": 0}, "boot-info": map[string]any{"mode": "efi", "secureboot": 0},
		"current-kernel": map[string]any{"sysname": "Linux", "release": h.kernel(), "version": build, "machine": "x86_64"},
	}, nil
}

func (c *call) clusterStatus() (any, error) {
	out := []any{}
	if len(c.s.hosts) > 1 {
		out = append(out, map[string]any{"type": "cluster", "id": "cluster", "name": "lab", "nodes": len(c.s.hosts), "quorate": boolInt(!c.s.noQuorum), "version": 1})
	}
	for i, node := range c.s.nodes() {
		id := i + 1
		if len(c.s.hosts) == 1 {
			id = 0 // who is alone has no number
		}
		out = append(out, map[string]any{"type": "node", "id": "node/" + node, "name": node, "nodeid": id, "online": boolInt(!c.s.hosts[node].Offline), "local": boolInt(i == 0),
			"ip": c.s.ip(node), "level": ""})
	}
	return out, nil
}

// reachable refuses what a node that is off does not answer, or of a cluster
// without a majority.
func (c *call) reachable() error {
	if h := c.host(); h != nil && h.Offline {
		return &apiError{status: 595, text: "No route to host", bare: true}
	}
	if c.s.noQuorum && c.method != "GET" && c.path != "/access/ticket" && !strings.Contains(c.path, "/agent") {
		return die("cluster not ready - no quorum?")
	}
	return nil
}

func (c *call) subscription() (any, error) {
	return map[string]any{"status": "notfound", "message": "There is no subscription key", "url": "https://www.proxmox.com/en/proxmox-virtual-environment/pricing",
		"serverid": strings.ToUpper(digestOf(c.param("node"))[:32])}, nil
}

func (c *call) nodeHistory() (any, error) {
	h := c.host()
	return c.history(map[string]any{"maxcpu": h.CPUs, "cpu": 0.01, "iowait": 0, "loadavg": 0.2, "memtotal": int64(h.Memory), "memused": c.s.usedMemory(h.Name),
		"roottotal": int64(100 * GiB), "rootused": int64(8 * GiB), "swaptotal": 0, "swapused": 0, "netin": 0, "netout": 0}), nil
}

// nodeDisks are the drives that the storages are on: one each.
func (c *call) nodeDisks() (any, error) {
	out := []any{}
	for i, name := range slices.Sorted(maps.Keys(c.host().storages)) {
		st := c.host().storages[name]
		if st.Shared || c.param("type") == "unused" {
			continue
		}
		used := map[string]string{"zfspool": "ZFS", "lvmthin": "LVM", "lvm": "LVM"}[st.Type]
		if used == "" {
			used = "ext4"
		}
		out = append(out, map[string]any{"devpath": fmt.Sprintf("/dev/nvme%dn1", i), "by_id_link": fmt.Sprintf("/dev/disk/by-id/nvme-%s", name), "size": int64(st.Size),
			"type": "nvme", "used": used, "vendor": "unknown", "model": "Simulated NVMe", "serial": "SIM" + strconv.Itoa(i), "wwn": "unknown", "health": "PASSED", "wearout": 100, "rpm": 0, "gpt": 1, "mounted": 1, "osdid": -1, "osdid-list": nil})
	}
	return out, nil
}

func (c *call) packages() (any, error) {
	out := []any{}
	for _, p := range [][2]string{{"proxmox-ve", c.s.release() + ".0"}, {"pve-manager", c.s.version}, {"proxmox-kernel-" + c.host().kernel() + "-signed", strings.TrimSuffix(c.host().kernel(), "-pve")},
		{"qemu-server", c.s.packagesOf().qemuServer}, {"pve-qemu-kvm", c.s.qemuPackage()}, {"libpve-storage-perl", c.s.packagesOf().storage}, {"zfsutils-linux", "2.3.4-pve1"}} {
		e := map[string]any{"Package": p[0], "Title": p[0], "Description": p[0], "Version": p[1], "OldVersion": p[1], "CurrentState": "Installed", "Origin": "Proxmox",
			"Arch": "amd64", "Priority": "optional", "Section": "admin"}
		if p[0] == "pve-manager" {
			e["ManagerVersion"] = c.s.version
		}
		if p[0] == "proxmox-ve" {
			e["RunningKernel"] = c.host().kernel()
		}
		out = append(out, e)
	}
	return out, nil
}
