package record

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// host is one node. Of one that is away nothing but its name is known.
func (r *reader) host(ctx context.Context, n entry) pvesim.Host {
	h := pvesim.Host{Name: n.text("node"), CPUs: int(n.number("maxcpu")), Memory: pvesim.Size(n.number("maxmem")), NUMANodes: 1}
	if n.text("status") == "offline" {
		h.Offline = true
		return h
	}
	base := "/nodes/" + h.Name
	var status entry
	if r.optional(ctx, base+"/status", nil, &status) {
		cpu := status.object("cpuinfo")
		h.CPUs, h.CPUModel, h.NUMANodes = int(cpu.number("cpus")), cpu.text("model"), max(1, int(cpu.number("sockets")))
		memory := status.object("memory")
		h.Memory = pvesim.Size(memory.number("total"))
		h.Used = pvesim.Size(memory.number("used"))
		h.Kernel = kernel(status)
	}
	r.devices(ctx, &h)
	r.bridges(ctx, &h)
	for _, e := range r.rows(ctx, base+"/storage", "storage", nil) {
		if r.isOf(h.Name, e.text("storage")) {
			h.Storages = append(h.Storages, r.storage(ctx, h.Name, e))
		}
	}
	return h
}

// kernel is the release: newer versions have a field for it, older ones uname's line.
func kernel(status entry) string {
	if release := status.object("current-kernel").text("release"); release != "" {
		return release
	}
	fields := strings.Fields(status.text("kversion"))
	if len(fields) < 2 {
		return ""
	}
	return fields[1]
}

// devices are all PCI functions, the bridges among them.
func (r *reader) devices(ctx context.Context, h *pvesim.Host) {
	hexadecimal := func(e entry, key string) string { return strings.ToLower(strings.TrimPrefix(e.text(key), "0x")) }
	grouped := false
	for _, e := range r.rows(ctx, "/nodes/"+h.Name+"/hardware/pci", "id", url.Values{"pci-class-blacklist": {""}}) {
		d := pvesim.PCIDevice{Address: e.text("id"), ID: hexadecimal(e, "vendor") + ":" + hexadecimal(e, "device"), Class: hexadecimal(e, "class"),
			Group: -1, Vendor: e.text("vendor_name"), Name: e.text("device_name"), MDev: e.is("mdev"), VirtualOf: e.text("physfn")}
		if sub := hexadecimal(e, "subsystem_vendor"); sub != "" {
			d.Subsystem = sub + ":" + hexadecimal(e, "subsystem_device")
		}
		if e["iommugroup"] != nil {
			d.Group = int(e.number("iommugroup"))
		}
		grouped = grouped || d.Group >= 0
		h.PCI = append(h.PCI, d)
	}
	h.NoIOMMU = len(h.PCI) > 0 && !grouped
}

func (r *reader) bridges(ctx context.Context, h *pvesim.Host) {
	for _, e := range r.rows(ctx, "/nodes/"+h.Name+"/network", "iface", nil) {
		name := e.text("iface")
		if kind := e.text("type"); kind != "bridge" && kind != "OVSBridge" {
			nameDevice(h, name, append(e.list("altnames"), name))
			continue
		}
		h.Bridges = append(h.Bridges, name)
		if e.is("bridge_vlan_aware") {
			h.VLANAware = append(h.VLANAware, name)
		}
		if vids := e.text("bridge_vids"); vids != "" && vids != "2-4094" {
			if h.VIDs == nil {
				h.VIDs = map[string]string{}
			}
			h.VIDs[name] = vids
		}
		if h.CIDRs == nil {
			h.CIDRs = map[string]string{}
		}
		h.CIDRs[name] = e.text("cidr")
		h.Gateway = cmp.Or(h.Gateway, e.text("gateway"))
		if e.text("bridge_ports") == "" && e.text("ovs_ports") == "" {
			h.NoPorts = append(h.NoPorts, name)
		}
	}
}

// nameDevice says which PCI device is a network interface: one of its names says its place.
func nameDevice(h *pvesim.Host, name string, all []string) {
	for i := range h.PCI {
		if d := &h.PCI[i]; slices.Contains(all, d.PlaceName(true)) || slices.Contains(all, d.PlaceName(false)) {
			d.Interface = name
		}
	}
}

// configKeys of a storage come along: none of them is a secret, and none names
// people.
func configKeys() []string {
	return []string{"blocksize", "content-dirs", "datastore", "export", "fs-name", "krbd", "monhost", "mountpoint", "options", "path", "pool",
		"preallocation", "server", "share", "sparse", "thinpool", "vgname"}
}

func storageConfig(e entry) map[string]string {
	out := map[string]string{}
	for _, k := range configKeys() {
		if v := e.text(k); v != "" {
			out[k] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// isOf reports whether a host has a storage: its list has those of other nodes too, as
// disabled ones (PVE/Storage.pm, storage_info).
func (r *reader) isOf(node, storage string) bool {
	i := slices.IndexFunc(r.storages, func(c entry) bool { return c.text("storage") == storage })
	if i < 0 {
		return true
	}
	nodes := r.storages[i].list("nodes")
	return len(nodes) == 0 || slices.Contains(nodes, node)
}

func (r *reader) storage(ctx context.Context, node string, e entry) pvesim.Storage {
	st := pvesim.Storage{Name: e.text("storage"), Type: e.text("type"), Content: e.list("content"), Shared: e.is("shared"),
		Size: pvesim.Size(e.number("total")), Used: pvesim.Size(e.number("used")), Disabled: e["enabled"] != nil && !e.is("enabled")}
	st.Inactive = !st.Disabled && e["active"] != nil && !e.is("active")
	if i := slices.IndexFunc(r.storages, func(c entry) bool { return c.text("storage") == st.Name }); i >= 0 {
		st.Config = storageConfig(r.storages[i])
	}
	if st.Disabled || st.Inactive {
		return st
	}
	for _, v := range r.rows(ctx, "/nodes/"+node+"/storage/"+st.Name+"/content", "volid", nil) {
		if _, name, _ := strings.Cut(v.text("volid"), ":"); recordable(v.text("content"), name) {
			st.Files = append(st.Files, pvesim.File{Name: name, Size: pvesim.Size(v.number("size"))})
		}
	}
	return st
}

// recordable are files that stand for themselves. Disks come with their machines,
// and backups are another owner's.
func recordable(content, name string) bool {
	return slices.Contains([]string{"iso", "vztmpl", "import", "snippets"}, content) && strings.HasPrefix(name, content+"/") && strings.Count(name, "/") == 1
}
