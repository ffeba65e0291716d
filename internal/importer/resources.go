package importer

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// attribute is an attribute of a VM's resource, with the names of the blocks around it.
type attribute struct {
	name string // joined by _, blocks that occur again with #n
	expr hclsyntax.Expression
}

func flatten(b *hclsyntax.Body, prefix string) []attribute {
	var out []attribute
	for _, a := range attributes(b) {
		out = append(out, attribute{prefix + a.Name, a.Expr})
	}
	seen := map[string]int{}
	for _, block := range b.Blocks {
		if block.Type == "lifecycle" || block.Type == "provisioner" || block.Type == "dynamic" || block.Type == "connection" {
			continue
		}
		name := block.Type
		if n := seen[name]; n > 0 || name == "disk" || name == "hostpci" {
			name += "#" + strconv.Itoa(n)
		}
		seen[block.Type]++
		out = append(out, flatten(block.Body, prefix+name+"_")...)
	}
	return out
}

// instance is a VM that a resource makes.
type instance struct {
	machine *machine
	context *hcl.EvalContext
}

// resources handles VMs that a module describes itself, with count or for_each over what is known.
func (d *draft) resources(m *module) {
	uses := map[string][]*setting{} // of variables
	for _, block := range m.machines {
		all := d.instances(m, block)
		for _, a := range flatten(block.Body, "") {
			if a.name == "name" || a.name == "count" || a.name == "for_each" || a.name == "depends_on" || a.name == "lifecycle" {
				continue
			}
			s := newSetting("resource."+block.Labels[1]+"."+strings.ReplaceAll(a.name, "#", ""), literal(m.files[block], a.expr, nil))
			names := variablesOf(a.expr)
			if s.value.kind != computed {
				d.settings = append(d.settings, s) // the value is here, and not in a variable
			} else if len(names) == 0 {
				d.settings = append(d.settings, s)
			} else {
				d.shadows = append(d.shadows, s)
			}
			d.attribute(m, block, a, all, s)
			for _, name := range names {
				uses[name] = append(uses[name], s)
			}
		}
	}
	d.attachDisks()
	for _, v := range m.variables {
		if len(uses[v.name]) == 0 || v.value.kind == object {
			d.variable(v.name, v.value)
			continue
		}
		d.used(v, uses[v.name])
	}
	for _, v := range m.valueless {
		d.valueless(v, len(uses[v.name]) > 0)
	}
}

// used is the fate of a variable whose value went into resources.
func (d *draft) used(v field, uses []*setting) {
	if slices.ContainsFunc(uses, func(s *setting) bool { return len(s.Keys) > 0 }) && !isSecret(normal(v.name)) {
		s := d.add(v.name, v.value)
		s.Reason = ""
		key := d.words[normal(v.name)].key
		for _, use := range uses {
			for _, k := range use.Keys {
				if key == "" || k == key || !slices.Contains(use.Keys, key) {
					s.carry(k)
				}
			}
			if use.Reason != "" && use.Fate == NoPlace {
				d.notes = append(d.notes, v.name+" ("+s.Place+"): "+use.Reason)
			}
		}
		return
	}
	d.variable(v.name, v.value)
}

func (d *draft) valueless(v field, _ bool) {
	s := d.add(v.name, v.value)
	name := normal(v.name)
	if !d.reference(name, s) && !d.special(name, s) {
		s.refuse("no file gives it a value: write one into the .tfvars, or the key into cluster.yaml")
		if reasonOf(name, "") != "" && strings.HasPrefix(reasonOf(name, ""), "+") {
			s.needless(strings.TrimPrefix(reasonOf(name, ""), "+"))
		}
	}
}

func variablesOf(e hclsyntax.Expression) []string {
	var out []string
	for _, t := range e.Variables() {
		if a, ok := hclAttr(t); ok && t.RootName() == "var" {
			out = append(out, a)
		}
	}
	return out
}

func hclAttr(t hcl.Traversal) (string, bool) {
	if len(t) < 2 {
		return "", false
	}
	a, ok := t[1].(hcl.TraverseAttr)
	return a.Name, ok
}

// instances are the VMs of a resource.
func (d *draft) instances(m *module, block *hclsyntax.Block) []instance {
	const most = 1000
	file := m.files[block]
	var contexts []*hcl.EvalContext
	with := func(name string, v cty.Value) {
		c := m.context.NewChild()
		c.Variables = map[string]cty.Value{name: v}
		contexts = append(contexts, c)
	}
	count, each := block.Body.Attributes["count"], block.Body.Attributes["for_each"]
	switch {
	case count != nil:
		n, err := strconv.Atoi(literal(file, count.Expr, m.context).text)
		for i := 0; err == nil && i < min(n, most); i++ {
			with("count", cty.ObjectVal(map[string]cty.Value{"index": cty.NumberIntVal(int64(i))}))
		}
	case each != nil:
		for i, f := range literal(file, each.Expr, m.context).fields {
			if i < most {
				with("each", cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(f.name), "value": f.cty()}))
			}
		}
	default:
		with("each", cty.EmptyObjectVal)
	}
	var out []instance
	for i, c := range contexts {
		at := place{file, block.TypeRange.Start.Line}
		name := value{}
		if a, ok := block.Body.Attributes["name"]; ok {
			name = literal(file, a.Expr, c)
		}
		if name.kind != text {
			name.text = block.Labels[1] + "-" + strconv.Itoa(i+1)
		}
		role := orElse(roleOf(block.Labels[1]), orElse(roleOf(name.text), ""))
		if roleOf(block.Labels[1]) == "none" || role == "" {
			d.notes = append(d.notes, "the VM "+printableName(name.text)+" ("+at.String()+") is neither a server nor an agent: as a VM that is not a node, write it below vms, with an image")
			continue
		}
		mc := d.machine(name.text, at)
		mc.role, mc.group, mc.vm = role, hostname(block.Labels[1]), true
		out = append(out, instance{mc, c})
	}
	return out
}

// attribute writes what all VMs of a resource have into their pool, and what differs into nodes.
func (d *draft) attribute(m *module, block *hclsyntax.Block, a attribute, all []instance, s *setting) {
	if len(all) == 0 {
		s.refuse("the resource makes no node of the cluster")
		return
	}
	name := resourceName(a.name)
	same := true
	var values []value
	for _, i := range all {
		v := literal(m.files[block], a.expr, i.context)
		values = append(values, v)
		same = same && v.text == values[0].text && v.kind == values[0].kind && len(v.items) == len(values[0].items)
	}
	if values[0].kind != computed {
		s.Reason = ""
	}
	if len(all) == 1 {
		s.value = values[0]
		d.resourceSetting("nodes."+all[0].machine.name, all[0].machine, name, s)
		return
	}
	if same {
		s.value = values[0]
		d.resourceSetting("pools."+all[0].machine.group, nil, name, s)
		return
	}
	for i, v := range values {
		part := &setting{Setting: Setting{Name: s.Name, Place: s.Place}, value: v}
		d.resourceSetting("nodes."+all[i].machine.name, all[i].machine, name, part)
		s.take(part)
	}
}

// attributeNames are attributes of resources by the names that settings have elsewhere.
func attributeNames() map[string]string {
	return map[string]string{
		"target_node": "host_node", "node_name": "host_node", "cpu_cores": "cores", "cpu_type": "cpu_type", "memory_dedicated": "memory", "desc": "description",
		"network_macaddr": "mac", "network_device_mac_address": "mac", "network_bridge": "bridge", "network_device_bridge": "bridge",
		"network_tag": "vlan", "network_device_vlan_id": "vlan", "network_device_mtu": "mtu", "network_mtu": "mtu",
		"clone": "vm_template", "clone_vm_id": "vm_template", "clone_template": "vm_template",
		"initialization_ip_config_ipv4_address": "ip_address", "initialization_ip_config_ipv4_gateway": "gateway",
		"initialization_user_account_username": "ciuser", "initialization_user_account_keys": "ssh_keys", "initialization_user_account_password": "ci_password",
		"initialization_dns_servers": "nameserver", "initialization_dns_domain": "searchdomain",
	}
}

func resourceName(name string) string {
	if n, ok := attributeNames()[name]; ok {
		return n
	}
	return name
}

var (
	ipConfig   = regexp.MustCompile(`^ip=([^,]+)(?:,gw=(\S+))?$`)
	pciMapping = regexp.MustCompile(`^(?:hostpci#\d+_mapping|pcis_pci\d+_mapping_mapping_id|pci_mapping_mapping_id)$`)
	pciAddress = regexp.MustCompile(`^(?:hostpci#\d+_id|pcis_pci\d+_raw_raw_id|hostpci#\d+_host)$`)
	diskKey    = regexp.MustCompile(`^disk#(\d+)_(size|storage|datastore_id)$`)
	vmDefault  = regexp.MustCompile(`(?:^|_)(?:bios|machine|scsihw|agent|agent_.*|started|boot|boot_order|os_type|serial.*|efidisk.*|efi_disk.*|vga.*|operating_system.*|full|full_clone|sockets|cpu_sockets|cpu_numa|` +
		`cicustom|hotplug|qemu_agent|scsi_hardware|stop_on_destroy|timeout.*|id|slot|model|interface|iothread|ssd|discard|cache|file_format|` +
		`device|pcie|rombar|xvga|type|balloon|automatic_reboot|define_connection_info|memory_floating|enabled|force_create|ciupgrade|disk#\d+_.*)$`)
)

// resourceSetting handles one attribute of one VM, or of all of a pool.
func (d *draft) resourceSetting(prefix string, m *machine, name string, s *setting) {
	v := s.value
	switch {
	case v.kind == computed:
		s.refuse("it is computed" + map[bool]string{true: ", from " + v.why}[v.why != ""] + ": write what it comes to")
	case v.empty():
		s.needless("it says nothing")
	case name == "ipconfig0":
		d.ipConfig(prefix, m, s)
	case pciMapping.MatchString(name):
		d.appendCard(prefix+".gpus.mapping", s)
	case pciAddress.MatchString(name):
		if _, ok := cards(v); !ok {
			s.refuse("it is not a PCI address")
			return
		}
		d.appendCard(prefix+".gpus.pci", s)
	case diskKey.MatchString(name):
		k := diskKey.FindStringSubmatch(name)
		yaml, reason := asText(v)
		key := prefix + ".disks.#" + k[1] + ".storage"
		if k[2] == "size" {
			yaml, reason = size(false)(name, v)
			key = prefix + ".disks.#" + k[1] + ".size"
		}
		if reason != "" {
			s.refuse(reason)
			return
		}
		d.put(s, key, yaml)
	case d.known(normal(name)) && !knownMachineWord(name), isSecret(normal(name)):
		d.clusterAs(name, s)
	case knownMachineWord(name):
		d.shapeKey(prefix, m, name, s)
	case vmDefault.MatchString(name):
		s.needless("homelab's VMs have it so, or choose it: UEFI, q35, virtio, guest agent")
	default:
		d.noPlace(normal(name), s)
	}
}

func knownMachineWord(name string) bool { _, ok := machineWordOf(name); return ok }

// appendCard adds a card of a VM: each has its own attribute.
func (d *draft) appendCard(key string, s *setting) {
	all, ok := cards(s.value)
	if !ok {
		all = []string{strings.TrimSpace(s.value.text)}
	}
	n := d.root.ensure(strings.Split(key, "."))
	items := all
	if n.yaml != "" {
		items = append(strings.Split(strings.Trim(n.yaml, "[]"), ", "), flow(all)[1:len(flow(all))-1])
		if strings.HasSuffix(key, ".pci") {
			items = slices.Compact(items)
		}
		n.yaml = "[" + strings.Join(items, ", ") + "]"
	} else {
		n.yaml = flow(items)
	}
	d.put(s, key, n.yaml)
}

func (d *draft) ipConfig(prefix string, m *machine, s *setting) {
	parts := ipConfig.FindStringSubmatch(strings.TrimSpace(s.value.text))
	if parts == nil {
		s.refuse("it is not ip=ADDRESS/LENGTH,gw=GATEWAY")
		return
	}
	for i, key := range []string{"ip", "gateway"} {
		t := parts[i+1]
		part := &setting{Setting: Setting{Name: s.Name, Place: s.Place}, value: value{kind: text, text: t, at: s.value.at}}
		if t == "" {
			continue
		}
		d.shapeKey(prefix, m, key, part)
		s.take(part)
	}
}

// attachDisks names disks: the first is the boot disk. A drive without a size, such as cloud-init's, is none.
func (d *draft) attachDisks() {
	for _, in := range []string{"pools", "nodes"} {
		section := d.root.kid(in)
		if section == nil {
			continue
		}
		for _, n := range section.kids {
			disks := n.kid("disks")
			if disks == nil {
				continue
			}
			disks.kids = slices.DeleteFunc(disks.kids, func(k *node) bool {
				gone := strings.HasPrefix(k.name, "#") && k.kid("size") == nil
				if gone {
					d.unmoor(in + "." + n.name + ".disks." + k.name)
				}
				return gone
			})
			boot := disks.kid("os") == nil
			for i, k := range disks.kids {
				if !strings.HasPrefix(k.name, "#") {
					continue
				}
				name := "disk" + strconv.Itoa(i)
				if boot {
					name, boot = "os", false
				}
				d.rename(in+"."+n.name+".disks."+k.name, in+"."+n.name+".disks."+name)
				k.name = name
			}
		}
	}
}

// rename changes the keys that settings are in.
func (d *draft) rename(from, to string) {
	for _, s := range slices.Concat(d.settings, d.shadows) {
		for i, k := range s.Keys {
			if rest, ok := strings.CutPrefix(k, from+"."); ok || k == from {
				s.Keys[i] = to + map[bool]string{true: "." + rest}[ok]
			}
		}
	}
}

// unmoor takes a key from the settings that are in it.
func (d *draft) unmoor(key string) {
	for _, s := range slices.Concat(d.settings, d.shadows) {
		s.Keys = slices.DeleteFunc(s.Keys, func(k string) bool { return k == key || strings.HasPrefix(k, key+".") })
		if len(s.Keys) == 0 && s.Fate == Carried {
			s.Fate = NoPlace
			s.needless("a drive without a size, such as cloud-init's: homelab makes its own")
		}
	}
}

func printableName(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}
