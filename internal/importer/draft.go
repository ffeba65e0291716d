package importer

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// draft is the file that is being written.
type draft struct {
	options  Options
	root     node
	settings []*setting
	shadows  []*setting // of attributes that only name variables, whose fate is that of the variables
	machines []*machine
	notes    []string

	words map[string]word // by name
	bits  int             // length of the nodes' network, where it is said apart
	talos *setting        // the first setting of Talos
}

// machine is a node of the new file.
type machine struct {
	name    string
	group   string // pool
	role    string // server or agent; empty: not known
	said    string // where the role is said
	address netip.Addr
	vm      bool // it has settings of a VM
	at      place
}

// node is a key of the new file.
type node struct {
	name   string
	yaml   string // of a value
	places []string
	remark string
	kids   []*node
}

func (n *node) kid(name string) *node {
	for _, k := range n.kids {
		if k.name == name {
			return k
		}
	}
	return nil
}

// ensure returns a node by its path, or makes it.
func (n *node) ensure(path []string) *node {
	for _, name := range path {
		k := n.kid(name)
		if k == nil {
			k = &node{name: name}
			n.kids = append(n.kids, k)
		}
		n = k
	}
	return n
}

// find returns a node by its key, or nil.
func (n *node) find(key string) *node {
	for name := range strings.SplitSeq(key, ".") {
		if n = n.kid(name); n == nil {
			return nil
		}
	}
	return n
}

// drop removes a key.
func (n *node) drop(key string) {
	parent, name := n, key
	if at := strings.LastIndexByte(key, '.'); at >= 0 {
		parent, name = n.find(key[:at]), key[at+1:]
	}
	if parent != nil {
		parent.kids = slices.DeleteFunc(parent.kids, func(k *node) bool { return k.name == name })
	}
}

// add registers a setting, so that its fate is told.
func (d *draft) add(name string, v value) *setting {
	for _, s := range d.settings {
		if s.Name == name && s.Place == v.at.String() {
			return s // used by several machines
		}
	}
	s := newSetting(name, v)
	d.settings = append(d.settings, s)
	return s
}

// put writes a key, unless the file has it with another value: the first one counts.
func (d *draft) put(s *setting, key, yaml string) {
	n := d.root.ensure(strings.Split(key, "."))
	switch {
	case n.yaml == "" && len(n.kids) == 0:
		n.yaml = yaml
	case n.yaml != yaml:
		s.refuse(fmt.Sprintf("%s of the file is that of %s, and this differs", key, strings.Join(n.places, ", ")))
		return
	}
	if s == nil {
		return
	}
	if !slices.Contains(n.places, s.Place) {
		n.places = append(n.places, s.Place)
	}
	s.carry(key)
}

// guess writes a key that no input has, with a remark.
func (d *draft) guess(key, yaml, remark string) {
	if d.root.find(key) == nil {
		n := d.root.ensure(strings.Split(key, "."))
		n.yaml, n.remark = yaml, remark
	}
}

// cluster handles a setting of the whole cluster, or of all of its machines.
func (d *draft) cluster(s *setting) { d.clusterAs(s.Name, s) }

// clusterAs is cluster for a setting that is looked up by another name than its own.
func (d *draft) clusterAs(name string, s *setting) {
	name = normal(name)
	switch v := s.value; {
	case v.empty():
		s.needless("it says nothing")
	case d.special(name, s):
	case d.reference(name, s):
	case isSecret(name) && !d.known(name):
		d.refuseUnplaced(name, s, "it may be a secret, and no key of cluster.yaml refers to such a one")
	case switchWord.MatchString(name) && (strings.EqualFold(v.text, "false") || v.text == "0"):
		s.needless("it is off")
	case v.kind == computed && strings.HasPrefix(reasonOf(name, ""), "+"):
		s.needless(reasonOf(name, "")[1:])
	case v.kind == computed:
	case d.known(name):
		w := d.words[name]
		yaml, reason := w.as(v)
		switch {
		case reason != "":
			s.refuse(reason)
		case w.key == "proxmox.insecure" && yaml == "false", w.key == "rancher.version" && yaml == `""`:
			s.needless("it is homelab's default")
		case w.key == "network.dns":
			d.append(s, w.key, yaml)
		default:
			d.put(s, w.key, yaml)
		}
	default:
		d.noPlace(name, s)
	}
}

func (d *draft) known(name string) bool { _, ok := d.words[name]; return ok }

// append adds to a list.
func (d *draft) append(s *setting, key, yaml string) {
	n := d.root.ensure(strings.Split(key, "."))
	if n.yaml != "" && n.yaml != yaml {
		items := strings.Split(strings.Trim(n.yaml, "[]"), ", ")
		for item := range strings.SplitSeq(strings.Trim(yaml, "[]"), ", ") {
			if !slices.Contains(items, item) {
				items = append(items, item)
			}
		}
		yaml = "[" + strings.Join(items, ", ") + "]"
	}
	n.yaml = yaml
	d.put(s, key, yaml)
}

func (d *draft) noPlace(name string, s *setting) {
	d.refuseUnplaced(name, s, "homelab has no such setting, or does not know this name for it: see the keys of docs/cluster-yaml.md")
}

var switchWord = regexp.MustCompile(`^(?:enable|install|use)_|_(?:enabled|enable_gateway_api)$`)

// refuseUnplaced tells why a setting has no place.
func (d *draft) refuseUnplaced(name string, s *setting, otherwise string) {
	reason := reasonOf(name, otherwise)
	if d.talos == nil && strings.Contains(name, "talos") || d.talos == nil && strings.Contains(name, "schematic") {
		d.talos = s
	}
	if rest, ok := strings.CutPrefix(reason, "+"); ok {
		s.needless(rest)
		return
	}
	s.refuse(reason)
}

func reasonOf(name, otherwise string) string {
	for _, r := range reasons() {
		if r.names.MatchString(name) {
			return r.reason
		}
	}
	return otherwise
}

// reference writes a reference where a secret was.
func (d *draft) reference(name string, s *setting) bool {
	for _, w := range secretWords() {
		if slices.Contains(strings.Fields(w.names), name) {
			d.refer(s, w.key)
			return true
		}
	}
	return false
}

// refer writes the reference of a key.
func (d *draft) refer(s *setting, key string) {
	s.Fate, s.Env = Secret, variableOf(key)
	d.put(s, key, "env:"+s.Env)
}

// special handles what is more than one key, or decides about others.
func (d *draft) special(name string, s *setting) bool {
	v := s.value
	switch name {
	case "proxmox_api_token", "virtual_environment_api_token", "pm_api_token", "api_token":
		if yaml, reason := asToken(v); reason == "" && v.kind == text {
			d.put(s, "proxmox.token", yaml)
		}
		d.refer(s, "proxmox.secret")
	case "cidr_prefix", "network_cidr_prefix", "network_subnet_range", "netmask_bits", "network_prefix_length", "node_netmask", "vm_netmask", "netmask":
		if yaml, reason := asNumber(v); reason == "" && len(yaml) < 3 {
			_, _ = fmt.Sscan(yaml, &d.bits)
			s.carry("network.prefix")
		}
	case "cilium_version":
		d.guess("k3s.cni", "cilium", "since "+s.Place+" has a version of it")
		return false
	case "gpu_operator_version":
		d.guess("nvidia.stack", "operator", "since "+s.Place+" has a version of it")
		return false
	case "gpu_all_functions", "gpu_pcie", "gpu_rombar":
		key := map[string]string{"gpu_all_functions": "allFunctions", "gpu_pcie": "pcie", "gpu_rombar": "rombar"}[name]
		if v.text == "true" || v.text == "1" {
			s.needless("it is the default of gpus." + key)
			return true
		}
		s.refuse("write gpus: {" + key + ": false} below the machines with cards")
	case "node_name":
		if d.root.find("proxmox.host") == nil || len(d.machines) > 0 || !s.value.scalar() {
			return false
		}
		m := d.machine(v.text, v.at)
		m.group = d.groupOf("agent")
		s.carry("nodes." + m.name)
	case "control_plane_taint":
		if yaml, reason := asTaints(v); reason == "" {
			d.put(s, "pools."+d.groupOf("server")+".taints", yaml)
			return true
		}
		return false
	case "enable_gateway_api", "cilium_enable_gateway_api":
		if yaml, reason := asBool(v); reason == "" && yaml == "true" {
			d.put(s, "ingress.kind", "gateway")
			return true
		}
		return false
	default:
		return false
	}
	return true
}

// groupOf is the pool of a role that inputs name no group for.
func (d *draft) groupOf(role string) string {
	for _, m := range d.machines {
		if m.role == role && m.group != "" {
			return m.group
		}
	}
	return map[string]string{"server": "servers", "agent": "workers"}[role]
}

var notHost = regexp.MustCompile(`[^a-z0-9-]+`)

// hostname is a machine's name as a node can have it.
func hostname(name string) string {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	name = strings.Trim(notHost.ReplaceAllString(name, "-"), "-")
	return name[:min(len(name), 63)]
}

// machine returns a machine by name, or makes it.
func (d *draft) machine(name string, at place) *machine {
	name = hostname(name)
	if name == "" {
		name = fmt.Sprintf("node%d", len(d.machines)+1)
	}
	for _, m := range d.machines {
		if m.name == name {
			return m
		}
	}
	m := &machine{name: name, at: at}
	d.machines = append(d.machines, m)
	return m
}

var (
	serverWord  = regexp.MustCompile(`(?:^|[-_])(?:control[-_]?planes?|controlplanes?|controllers?|control|masters?|servers?|cp\d*|ctrl\d*|etcd)(?:[-_\d]|$)`)
	agentWord   = regexp.MustCompile(`(?:^|[-_])(?:gpu[-_]?workers?|workers?|work|agents?|nodes?|wk|gpu)(?:[-_\d]|$)`)
	foreignWord = regexp.MustCompile(`(?:^|[-_])(?:storage|nfs|proxmox|pve|hypervisors?|maintenance|bastion|load[-_]?balancers?|lb|haproxy|localhost)(?:[-_\d]|$)`)
)

// roleOf is the role that a name of a group or of a machine tells.
func roleOf(name string) string {
	name = strings.ToLower(name)
	switch {
	case foreignWord.MatchString(name):
		return "none"
	case serverWord.MatchString(name):
		return "server"
	case agentWord.MatchString(name):
		return "agent"
	}
	return ""
}
