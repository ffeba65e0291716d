package nodes

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/pci"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

func nodeHandlers() map[string]world.Handler {
	const node = "/nodes/{node}"
	return map[string]world.Handler{
		"GET /version":                                 versionInfo,
		"GET /cluster/status":                          clusterStatus,
		"GET /nodes":                                   listNodes,
		"GET " + node + "/status":                      nodeStatus,
		"GET " + node + "/apt/update":                  func(*world.Call) (any, error) { return []any{}, nil },
		"GET " + node + "/apt/versions":                packages,
		"GET " + node + "/version":                     versionInfo,
		"GET " + node + "/subscription":                subscription,
		"GET " + node + "/certificates/info":           certificates,
		"GET " + node + "/rrddata":                     nodeHistory,
		"GET " + node + "/disks/list":                  nodeDisks,
		"GET " + node + "/hardware/usb":                pci.ListUSB,
		"GET " + node + "/capabilities/qemu/cpu":       cpuModels,
		"GET " + node + "/capabilities/qemu/cpu-flags": cpuFlags,
		"GET " + node + "/capabilities/qemu/machines":  release.Machines,
	}
}

func uptime(s *world.State) int { return int(time.Since(s.Began)/time.Second) + 86400 }

// NodeFigures are what pvestatd has to say about a node; who may not see them
// gets none and no error.
func NodeFigures(c *world.Call, node string, entry map[string]any) map[string]any {
	entry["node"], entry["status"], entry["type"], entry["id"], entry["level"] = node, "online", "node", "node/"+node, ""
	h := c.State.Hosts[node]
	if h != nil && h.Offline {
		entry["status"] = "offline"
		return entry
	}
	if h == nil || !access.Can(c.State, c.Who, "/nodes/"+node, "Sys.Audit") {
		return entry
	}
	entry["maxcpu"], entry["cpu"], entry["uptime"] = h.CPUs, 0.01, uptime(c.State)
	entry["maxmem"], entry["mem"] = int64(h.Memory), c.State.UsedMemory(node)
	entry["maxdisk"], entry["disk"] = int64(100*model.GiB), int64(8*model.GiB)
	return entry
}

func listNodes(c *world.Call) (any, error) {
	out := []any{}
	for _, node := range c.State.Nodes() {
		der, err := Certificate(c.State)
		if err != nil {
			return nil, err
		}
		out = append(out, NodeFigures(c, node, map[string]any{"ssl_fingerprint": Fingerprint(der)}))
	}
	return out, nil
}

func nodeStatus(c *world.Call) (any, error) {
	h := c.Host()
	used := c.State.UsedMemory(h.Name)
	numa := max(1, h.NUMANodes)
	const build = "#1 SMP PREEMPT_DYNAMIC"
	free := max(0, int64(h.Memory)-used)
	return map[string]any{
		"uptime": uptime(c.State), "cpu": 0.01, "wait": 0, "idle": 0, "loadavg": []string{"0.20", "0.15", "0.10"},
		"pveversion": "pve-manager/" + versionOf(c) + "/14a22df3", "kversion": "Linux " + h.RunningKernel() + " " + build,
		"cpuinfo": map[string]any{"cpus": h.CPUs, "sockets": numa, "cores": h.CPUs / numa / 2, "model": h.CPUModel, "mhz": "2800.000", "hvm": "1", "user_hz": 100},
		"memory":  map[string]any{"total": int64(h.Memory), "used": used, "free": free, "available": free},
		"swap":    map[string]any{"total": 0, "used": 0, "free": 0},
		"rootfs": map[string]any{"total": int64(100 * model.GiB), "used": int64(8 * model.GiB),
			"free": int64(92 * model.GiB), "avail": int64(92 * model.GiB)},
		"ksm": map[string]any{"shared": 0}, "boot-info": map[string]any{"mode": "efi", "secureboot": 0},
		"current-kernel": map[string]any{"sysname": "Linux", "release": h.RunningKernel(), "version": build, "machine": "x86_64"},
	}, nil
}

func clusterStatus(c *world.Call) (any, error) {
	out := []any{}
	if len(c.State.Hosts) > 1 {
		out = append(out, map[string]any{"type": "cluster", "id": "cluster", "name": "lab", "nodes": len(c.State.Hosts), "quorate": answer.Flag(!c.State.NoQuorum), "version": 1})
	}
	for i, node := range c.State.Nodes() {
		id := i + 1
		if len(c.State.Hosts) == 1 {
			id = 0 // who is alone has no number
		}
		out = append(out, map[string]any{"type": "node", "id": "node/" + node, "name": node, "nodeid": id, "online": answer.Flag(!c.State.Hosts[node].Offline), "local": answer.Flag(i == 0),
			"ip": c.State.IP(node), "level": ""})
	}
	return out, nil
}

// Reachable refuses what a node that is off does not answer, or of a cluster
// without a majority.
func Reachable(c *world.Call) error {
	if h := c.Host(); h != nil && h.Offline {
		return &answer.Error{Status: 595, Text: "No route to host", Bare: true}
	}
	if c.State.NoQuorum && c.Method != "GET" && c.Path != "/access/ticket" && !strings.Contains(c.Path, "/agent") {
		return answer.Die("cluster not ready - no quorum?")
	}
	return nil
}

func subscription(c *world.Call) (any, error) {
	return map[string]any{"status": "notfound", "message": "There is no subscription key", "url": "https://www.proxmox.com/en/proxmox-virtual-environment/pricing",
		"serverid": strings.ToUpper(world.DigestOf(c.Param("node"))[:32])}, nil
}

func nodeHistory(c *world.Call) (any, error) {
	h := c.Host()
	figures := map[string]any{"maxcpu": h.CPUs, "cpu": 0.01, "iowait": 0, "loadavg": 0.2, "memtotal": int64(h.Memory), "memused": c.State.UsedMemory(h.Name),
		"roottotal": int64(100 * model.GiB), "rootused": int64(8 * model.GiB), "swaptotal": 0, "swapused": 0, "netin": 0, "netout": 0}
	if !strings.HasPrefix(c.State.Version, "8.") {
		figures["arcsize"], figures["memavailable"] = 0, int64(h.Memory)-c.State.UsedMemory(h.Name)
		Pressures(figures, "pressurecpusome", "pressureiosome", "pressureiofull", "pressurememorysome", "pressurememoryfull")
	}
	return History(c, figures), nil
}

// Pressures are figures since Proxmox VE 9 (PVE/Service/pvestatd.pm; pve-node-9.0, pve-vm-9.0).
func Pressures(figures map[string]any, names ...string) {
	for _, k := range names {
		figures[k] = 0
	}
}

// nodeDisks are the drives that the storages are on: one each.
func nodeDisks(c *world.Call) (any, error) {
	out := []any{}
	for i, name := range slices.Sorted(maps.Keys(c.Host().Stores)) {
		st := c.Host().Stores[name]
		if st.Shared || c.Param("type") == "unused" {
			continue
		}
		used := map[string]string{"zfspool": "ZFS", "lvmthin": "LVM", "lvm": "LVM"}[st.Type]
		if used == "" {
			used = "ext4"
		}
		path, link, kind := fmt.Sprintf("/dev/nvme%dn1", i), "nvme-", "nvme"
		if c.Host().SATA {
			path, link, kind = "/dev/sd"+string(rune('a'+i)), "ata-", "ssd"
		}
		out = append(out, map[string]any{"devpath": path, "by_id_link": "/dev/disk/by-id/" + link + name, "size": int64(st.Size),
			"type": kind, "used": used, "vendor": "unknown", "model": "Simulated disk", "serial": "SIM" + strconv.Itoa(i), "wwn": "unknown", "health": "PASSED", "wearout": 100, "rpm": 0, "gpt": 1, "mounted": 1, "osdid": -1, "osdid-list": nil})
	}
	return out, nil
}

func packages(c *world.Call) (any, error) {
	out := []any{}
	for _, p := range [][2]string{{"proxmox-ve", release.Number(c.State) + ".0"}, {"pve-manager", versionOf(c)}, {"proxmox-kernel-" + c.Host().RunningKernel() + "-signed", strings.TrimSuffix(c.Host().RunningKernel(), "-pve")},
		{"qemu-server", release.PackagesOf(c.State).QEMUServer}, {"pve-qemu-kvm", release.QEMUPackage(c.State)}, {"libpve-storage-perl", release.PackagesOf(c.State).Storage}, {"zfsutils-linux", "2.3.4-pve1"}} {
		e := map[string]any{"Package": p[0], "Title": p[0], "Description": p[0], "Version": p[1], "OldVersion": p[1], "CurrentState": "Installed", "Origin": "Proxmox",
			"Arch": "amd64", "Priority": "optional", "Section": "admin"}
		if p[0] == "pve-manager" {
			e["ManagerVersion"] = versionOf(c)
		}
		if p[0] == "proxmox-ve" {
			e["RunningKernel"] = c.Host().RunningKernel()
		}
		out = append(out, e)
	}
	return out, nil
}
