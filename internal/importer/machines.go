package importer

import (
	"slices"
	"strconv"
	"strings"
)

// machineWord is a setting of one machine: a key of a node, and how other tools call it.
type machineWord struct {
	key   string
	as    func(name string, v value) (yaml, reason string)
	names string
	vm    bool // only VMs have it
}

func machineWords() []machineWord {
	plain := func(c convert) func(string, value) (string, string) {
		return func(_ string, v value) (string, string) { return c(v) }
	}
	return []machineWord{
		{"address", nil, "ip ip_cidr ip_address address ansible_host vm_ipv4_address ipv4 ipv4_address node_ip server_ip_cidr host_ip network_ip vm_ip ip_addr", false},
		{"role", nil, "machine_type role type node_type controller", false},
		{"mac", plain(asMAC), "mac mac_address macaddr mac_addr network_mac_address", false},
		{"vmid", plain(asNumber), "vm_id vmid id", true},
		{"host", plain(asText), "host_node target_node node_name vm_target_node proxmox_node pve_node node hypervisor", true},
		{"cores", plain(asNumber), "cpu cores cpu_cores vcpus vcpu cpus vm_cpu vm_cores cpu_count", true},
		{"cpu", plain(asText), "cpu_type", true},
		{"memory", size(true), "ram_dedicated memory memory_dedicated mem ram memory_mb mem_mb memory_gb mem_gb ram_gb ram_mb vm_memory vm_mem memory_size", true},
		{"disks.os.size", size(false), "disk_size disk disk_gb disk_size_gb boot_disk_size os_disk_size vm_disk vm_disk_size system_disk_size", true},
		{"storage", plain(asText), "datastore_id storage storage_datastore_id boot_disk_datastore storage_pool datastore", true},
		{"network.bridge", plain(asText), "bridge network_bridge network_device", true},
		{"network.vlan", plain(asNumber), "vlan_id vlan vlan_tag", true},
		{"network.gateway", plain(asAddress), "gateway network_gateway vm_gateway", true},
		{"network.dns", plain(asAddresses), "dns nameserver dns_servers network_dns vm_nameserver", true},
		{"network.mtu", plain(asNumber), "mtu", false},
		{"gpus.pci", plain(asCards), "gpu_pci_id gpu_devices gpu_pci gpu_pci_address gpu_pci_addresses gpus pci_devices gpu_ids", true},
		{"gpus.mapping", plain(asTexts), "gpu_mapping gpu_mappings gpu_mapping_name gpu_mapping_id", true},
		{"labels", plain(asLabels), "labels node_labels", false},
		{"taints", plain(asTaints), "taints node_taints", false},
		{"tags", plain(asTexts), "tags vm_tags", true},
		{"description", plain(asText), "description desc", true},
		{"onboot", plain(asBool), "onboot on_boot", true},
		{"startup", nil, "startup_order", true},
		{"user", nil, "ansible_user ansible_ssh_user", false},
		{"jump", nil, "", false},
	}
}

// machineWordOf finds the key of a name, which may be a plural.
func machineWordOf(name string) (machineWord, bool) {
	name = normal(name)
	for _, w := range machineWords() {
		names := strings.Fields(w.names)
		if slices.Contains(names, name) || slices.Contains(names, strings.TrimSuffix(name, "s")) {
			return w, true
		}
	}
	return machineWord{}, false
}

// describes reports whether an object is about one machine.
func describes(v value) bool {
	if v.kind != object {
		return false
	}
	for _, name := range []string{"ip", "ip_cidr", "ip_address", "address", "vm_ipv4_address", "ansible_host", "machine_type", "host_node", "vm_id", "ipv4_address", "mac_address"} {
		if _, ok := v.field(name); ok {
			return true
		}
	}
	return false
}

// machinesOf reports whether a value is a collection of machines, and returns them with their names.
func machinesOf(v value) (out []field) {
	switch v.kind {
	case object:
		for _, f := range v.fields {
			if !describes(f.value) {
				return nil
			}
		}
		return v.fields
	case list:
		for _, item := range v.items {
			name := value{}
			for _, key := range []string{"name", "vm_name", "hostname"} {
				if n, ok := item.field(key); ok {
					name = n
				}
			}
			if !describes(item) || !name.scalar() {
				return nil
			}
			out = append(out, field{name.text, item})
		}
	}
	return out
}

// member handles an entry of a collection of machines.
func (d *draft) member(collection, name string, v value) {
	role := roleOf(collection)
	if role == "none" {
		d.each(collection+"."+name, v, func(s *setting) { d.cluster(s) })
		return
	}
	m := d.machine(name, v.at)
	if t, ok := v.field("machine_type"); ok {
		role = roleOf(t.text)
	} else if c, ok := v.field("controller"); ok {
		role = map[bool]string{true: "server", false: "agent"}[c.text == "true"]
	} else if t, ok := v.field("role"); ok {
		role = roleOf(t.text)
	}
	if role == "" || collection == "nodes" && m.role == "" && role == "agent" {
		role = orElse(roleOf(name), role)
	}
	m.role = role
	m.group = orElse(m.group, d.groupOf(role))
	for _, f := range v.fields {
		if f.name == "disks" && f.kind == object {
			d.disks(m, collection+"."+name+".disks", f.value)
			continue
		}
		d.ofMachine(m, f.name, d.add(collection+"."+name+"."+f.name, f.value))
	}
}

func orElse(a, b string) string {
	if a != "" && a != "none" {
		return a
	}
	return b
}

// each registers the leaves of a value.
func (d *draft) each(name string, v value, do func(*setting)) {
	if v.kind == object && len(v.fields) > 0 {
		for _, f := range v.fields {
			d.each(name+"."+f.name, f.value, do)
		}
		return
	}
	if v.kind == list && len(v.items) > 0 && v.items[0].kind == object {
		for i, item := range v.items {
			d.each(name+"."+strconv.Itoa(i), item, do)
		}
		return
	}
	do(d.add(name, v))
}

// ofMachine handles a setting of one machine; name is without the machine's.
func (d *draft) ofMachine(m *machine, name string, s *setting) {
	d.shapeKey("nodes."+m.name, m, name, s)
}

// ofGroup handles a setting of all machines of a group.
func (d *draft) ofGroup(group, name string, s *setting) {
	if name == "count" {
		s.needless("the file names each machine")
		return
	}
	d.shapeKey("pools."+group, nil, name, s)
}

// shapeKey writes a key of a node or pool.
func (d *draft) shapeKey(prefix string, m *machine, name string, s *setting) {
	w, ok := machineWordOf(name)
	v := s.value
	switch {
	case v.empty():
		s.needless("it says nothing")
		return
	case v.kind == computed:
		return
	case normal(name) == "igpu" && v.text == "false", normal(name) == "name" || normal(name) == "vm_name" || normal(name) == "hostname":
		if normal(name) != "igpu" {
			s.carry(prefix)
		} else {
			s.needless("it is off")
		}
		return
	case !ok:
		d.noPlace(normal(name), s)
		return
	}
	switch w.key {
	case "address":
		d.address(prefix, m, s)
		return
	case "role":
		if m == nil || m.role == "" {
			s.refuse("it is neither a server's nor an agent's")
			return
		}
		m.said = s.Place
		s.carry(prefix + ".role")
		return
	case "user":
		d.put(s, "ssh.user", scalar(v.text))
		return
	case "startup":
		d.put(s, prefix+".startup", scalar("order="+v.text))
		return
	}
	yaml, reason := w.as(name, v)
	if m != nil && w.vm && reason == "" {
		m.vm = true
	}
	switch {
	case w.key == "disks.os.size" && strings.HasPrefix(v.text, "/dev/"):
		s.needless("homelab finds the disks itself")
	case reason != "":
		s.refuse(reason)
	case w.key == "onboot" && yaml == "true":
		s.needless("it is homelab's default")
	case strings.HasPrefix(w.key, "network.") && d.sameNetwork(s, w.key, yaml):
	default:
		d.put(s, prefix+"."+w.key, yaml)
	}
}

// sameNetwork writes a machine's setting of its network as the cluster's, if no other has it.
func (d *draft) sameNetwork(s *setting, key, yaml string) bool {
	n := d.root.find(key)
	if n == nil || n.yaml == yaml {
		d.put(s, key, yaml)
		return true
	}
	return false
}

func (d *draft) address(prefix string, m *machine, s *setting) {
	a, p, ok := addressOf(s.value)
	if !ok || m == nil {
		s.refuse("it is not an IP address: homelab's nodes have static ones, or dhcp: true")
		return
	}
	if m.address.IsValid() && m.address != a {
		s.refuse("another place gives " + m.name + " the address " + m.address.String() + ", which the file has")
		return
	}
	m.address = a
	d.put(s, prefix+".address", a.String())
	if p.IsValid() && !p.IsSingleIP() && !d.sameNetwork(s, "network.prefix", p.String()) {
		d.put(s, prefix+".network.prefix", p.String())
	}
}

// disks handles a machine's further disks.
func (d *draft) disks(m *machine, name string, v value) {
	for _, disk := range v.fields {
		at := "nodes." + m.name + ".disks." + hostname(disk.name)
		for _, f := range disk.fields {
			s := d.add(name+"."+disk.name+"."+f.name, f.value)
			yaml, reason := "", ""
			switch normal(f.name) {
			case "size":
				yaml, reason = size(false)(f.name, f.value)
			case "mountpoint", "mount", "path":
				yaml, reason = asText(f.value)
			case "datastore_id", "storage", "datastore":
				yaml, reason = asText(f.value)
			default:
				s.needless("the guest finds disks by serial, which is their name")
				continue
			}
			if reason != "" {
				s.refuse(reason)
				continue
			}
			d.put(s, at+"."+map[string]string{"size": "size", "datastore_id": "storage", "storage": "storage", "datastore": "storage"}[normal(f.name)]+
				map[bool]string{true: "mount"}[strings.HasPrefix(normal(f.name), "mount") || normal(f.name) == "path"], yaml)
		}
	}
}
