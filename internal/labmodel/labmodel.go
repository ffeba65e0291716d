package labmodel

import (
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// ModelFor returns the hardware for what a cluster needs: the smallest preset that fits, with its
// name, or a generated one, without a name.
func ModelFor(needs labctl.Needs) (preset string, m pvesim.Model) {
	for _, name := range pvesim.Presets() {
		if m, err := pvesim.LoadModel(name); err == nil && len(needs.Missing(HardwareOf(m))) == 0 {
			return name, m
		}
	}
	return "", generate(needs)
}

// generate generates hardware: each host of the file, with its declared resources and what its
// nodes need.
func generate(needs labctl.Needs) pvesim.Model {
	var hosts []pvesim.Host
	var mappings []pvesim.PCIMapping
	for _, want := range needs.Hosts {
		h := host(want)
		if len(h.VLANAware) == 0 {
			h.CIDRs, h.Gateway = own(needs, len(hosts))
		}
		hosts = append(hosts, h)
		mappings = append(mappings, namedMappings(want, h)...)
		mappings = append(mappings, addDevices(want, &hosts[len(hosts)-1])...)
	}
	m := pvesim.NewModel(hosts...)
	m.Mappings = mappings
	for _, pool := range needs.Pools {
		m.Pools = append(m.Pools, pvesim.Pool{ID: pool})
	}
	m.SecurityGroups = needs.Groups
	if len(hosts) == 0 {
		return m
	}
	for i, name := range needs.Templates {
		m.VMs = append(m.VMs, template(needs, hosts[0], name, 9000+i))
	}
	return m
}

const (
	sockets    = 2 // of hosts with several cards
	leastCPUs  = 16
	leastStore = pvesim.TiB
)

func host(w labctl.HostNeeds) pvesim.Host {
	h := pvesim.Host{Name: w.Name, NUMANodes: 1, CPUModel: "AMD EPYC 7543 32-Core Processor",
		CPUs:   max(leastCPUs, w.Declared.Cores, roundUp(w.Cores)),
		Memory: max(pvesim.Size(w.Declared.Memory), pvesim.Size(roundUp(int((pvesim.Size(w.Memory)+unavailableMemory(pvesim.Model{}, w.Name))/pvesim.GiB)))*pvesim.GiB)}
	if w.Cards > sockets {
		h.NUMANodes = sockets
	}
	for _, bridge := range slices.Sorted(maps.Keys(w.Bridges)) {
		h.Bridges = append(h.Bridges, bridge)
		if w.Bridges[bridge] {
			h.VLANAware = append(h.VLANAware, bridge)
		}
	}
	if len(h.Bridges) == 0 {
		h.Bridges = []string{"vmbr0"}
	}
	h.MTUs = maps.Clone(w.MTUs)
	maps.DeleteFunc(h.MTUs, func(_ string, mtu int) bool { return mtu <= labctl.UsualMTU })
	h.Storages = stores(w)
	h.PCI = devices(w, h.NUMANodes)
	return h
}

// roundUp returns the next power of two, as for real hardware.
func roundUp(n int) int { return 1 << bits.Len(uint(max(1, n-1))) }

// stores returns the storages: local, which every host has, and those that the file names, as
// a disk pool or a directory.
func stores(w labctl.HostNeeds) []pvesim.Storage {
	out := []pvesim.Storage{{Name: "local", Type: "dir", Content: []string{"iso", "vztmpl", "import", "backup", "images", "snippets"}, Size: leastStore}}
	for _, name := range slices.Sorted(maps.Keys(w.Storages)) {
		if name == "local" {
			continue
		}
		st := pvesim.Storage{Name: name, Type: "zfspool", Content: []string{"images", "rootdir"}, Size: max(leastStore, pvesim.Size(w.Declared.Storage[name]))}
		for _, content := range w.Storages[name] {
			if content == "iso" || content == "import" {
				st.Type, st.Content = "dir", []string{"iso", "vztmpl", "import", "backup", "images"}
			}
		}
		if name == "local-lvm" { // what Proxmox's installer makes
			st.Type = "lvmthin"
		}
		out = append(out, st)
	}
	return out
}

// Places and IOMMU groups of cards that the file does not name.
const (
	firstBus   = 0x01
	busStep    = 0x08
	firstGroup = 20
)

// devices returns the cards: those that are named by address, then as many more as needed.
func devices(w labctl.HostNeeds, sockets int) []pvesim.PCIDevice {
	models := w.Models
	if len(models) == 0 {
		models = []labctl.Model{{Asked: "A100"}}
	}
	var slots []string
	for _, s := range w.Slots {
		if !slices.Contains(slots, s) {
			slots = append(slots, s)
		}
	}
	for bus := firstBus; len(slots) < w.Cards && bus < 0x100; bus += busStep {
		if s := fmt.Sprintf("0000:%02x:00", bus); !slices.Contains(slots, s) {
			slots = append(slots, s)
		}
	}
	slices.Sort(slots)
	var out []pvesim.PCIDevice
	for i, s := range slots {
		c := card(models[i%len(models)])
		c.Address, c.Group, c.NUMANode = s+".0", firstGroup+i, i*sockets/len(slots)
		out = append(out, c)
	}
	return out
}

// card returns a card of a model.
func card(m labctl.Model) pvesim.PCIDevice {
	d := pvesim.PCIDevice{ID: "10de:20f1", Subsystem: "10de:145f", Class: "030200", Vendor: "NVIDIA Corporation",
		Name: "GA100 [A100 PCIe 40GB]", Product: "NVIDIA A100-PCIE-40GB"}
	switch {
	case strings.Contains(strings.ToLower(d.Name), strings.ToLower(m.Asked)):
	case m.ID != "":
		d.ID, d.Name, d.Product = m.ID, "["+strings.TrimPrefix(m.Name, "NVIDIA ")+"]", m.Name
	default:
		d.Name, d.Product = "["+m.Asked+"]", "NVIDIA "+m.Asked
	}
	return d
}

// namedMappings returns the existing resource mappings that the file names, with a card for each time
// that one is named.
func namedMappings(w labctl.HostNeeds, h pvesim.Host) []pvesim.PCIMapping {
	var out []pvesim.PCIMapping
	for i, id := range w.Mappings {
		d := h.PCI[len(h.PCI)-1-i%len(h.PCI)]
		entry := fmt.Sprintf("node=%s,path=%s,id=%s,iommugroup=%d,subsystem-id=%s", h.Name, strings.TrimSuffix(d.Address, ".0"), d.ID, d.Group, d.Subsystem)
		if at := slices.IndexFunc(out, func(m pvesim.PCIMapping) bool { return m.ID == id }); at >= 0 {
			out[at].Map = append(out[at].Map, entry)
			continue
		}
		out = append(out, pvesim.PCIMapping{ID: id, Map: []string{entry}})
	}
	return out
}

// addDevices gives a host the devices besides cards that its nodes name, and returns the mappings among
// them. Its own disks are then on SATA, so that an NVMe disk is not one of them.
func addDevices(w labctl.HostNeeds, h *pvesim.Host) (mappings []pvesim.PCIMapping) {
	const bus, group = 0xc0, 100
	h.SATA = len(w.Devices) > 0
	for i, device := range w.Devices {
		d := pvesim.PCIDevice{Address: fmt.Sprintf("0000:%02x:00.0", bus+i), ID: "144d:a80a", Subsystem: "144d:a801", Class: "010802", Group: group + i,
			Vendor: "Samsung Electronics Co Ltd", Name: "NVMe SSD Controller PM9A1"}
		switch {
		case strings.Count(device, ":") > 1 && strings.Contains(device, "."):
			d.Address = device
		case strings.Count(device, ":") > 1:
			d.Address = device + ".0"
		case strings.Contains(device, ":"):
			d.ID, d.Subsystem, d.Class, d.Vendor, d.Name = device, device, "088000", "", ""
		default:
			entry := fmt.Sprintf("node=%s,path=%s,id=%s,iommugroup=%d,subsystem-id=%s", h.Name, d.Address, d.ID, d.Group, d.Subsystem)
			mappings = append(mappings, pvesim.PCIMapping{ID: device, Map: []string{entry}})
		}
		h.PCI = append(h.PCI, d)
	}
	for i, device := range w.USB {
		d := pvesim.USBDevice{Port: fmt.Sprintf("9-%d", i+1), ID: "10c4:ea60", Product: "CP2102N USB to UART Bridge Controller"}
		switch id, port, _ := strings.Cut(device, " "); {
		case port != "":
			d.ID, d.Port = id, port
		case strings.Contains(id, ":"):
			d.ID = id
		default:
			mappings = append(mappings, pvesim.PCIMapping{ID: device, USB: true, Map: []string{fmt.Sprintf("node=%s,id=%s,path=%s", h.Name, d.ID, d.Port)}})
		}
		h.USB = append(h.USB, d)
	}
	return mappings
}

// own is the address of the n-th host in the nodes' network, an unused one, on their bridge.
func own(needs labctl.Needs, n int) (cidrs map[string]string, gateway string) {
	prefix := needs.Network
	if !prefix.IsValid() {
		return nil, ""
	}
	for a := prefix.Masked().Addr().Next(); prefix.Contains(a); a = a.Next() {
		if slices.Contains(needs.Taken, a) {
			continue
		}
		if n--; n < 0 {
			return map[string]string{needs.Bridge: netip.PrefixFrom(a, prefix.Bits()).String()}, needs.Gateway.String()
		}
	}
	return nil, ""
}

// template is an existing template that the file names, on the first host. id is its VMID, unless it is named by another.
func template(needs labctl.Needs, h pvesim.Host, name string, id int) pvesim.VM {
	storage := needs.TemplateStorage
	v := pvesim.VM{ID: id, Node: h.Name, Name: name, Image: "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"}
	if id, err := strconv.Atoi(name); err == nil {
		v.ID, v.Name = id, "template"
	}
	stem := ""
	if i := slices.IndexFunc(h.Storages, func(st pvesim.Storage) bool { return st.Name == storage }); i >= 0 && h.Storages[i].Type == "dir" {
		stem = fmt.Sprintf("%d/", v.ID)
	}
	disk := func(n int, size string) string {
		text := fmt.Sprintf("%s:%sbase-%d-disk-%d", storage, stem, v.ID, n)
		if stem != "" {
			text += ".qcow2"
		}
		return text + ",size=" + size
	}
	v.Config = map[string]string{"template": "1", "cores": "2", "memory": "2048", "ostype": "l26", "machine": "q35", "bios": "ovmf", "agent": "1",
		"efidisk0": disk(0, "4M") + ",efitype=4m", "scsi0": disk(1, "3584M"), "scsihw": "virtio-scsi-single", "boot": "order=scsi0"}
	return v
}
