package importer

import (
	"fmt"
	"net/netip"
	"strings"
)

// shareCards gives cards that are listed for all agents to each of them in turn.
func (d completion) shareCards() {
	for _, s := range d.settings {
		name := normal(s.Name)
		if name != "gpu_pci_addresses" && name != "gpu_mappings" && name != "gpu_pci_address" && name != "gpu_pci_id" || len(s.Keys) > 0 || s.value.empty() {
			continue
		}
		all, ok := s.value.texts()
		agents := d.cardless()
		switch {
		case !ok || len(all) == 0:
		case len(agents) == 0:
			s.refuse("each machine's cards are said elsewhere, or no agent is known")
		case len(all)%len(agents) != 0:
			s.refuse(fmt.Sprintf("%d cards do not divide among %d machines: write gpus below each", len(all), len(agents)))
		default:
			each := len(all) / len(agents)
			for i, m := range agents {
				part := all[i*each : (i+1)*each]
				if strings.Contains(name, "mapping") {
					d.put(s, "nodes."+m.name+".gpus.mapping", flow(part))
				} else if c, ok := cards(value{kind: text, text: strings.Join(part, " ")}); ok {
					d.put(s, "nodes."+m.name+".gpus.pci", flow(c))
				}
			}
			if len(all) == 1 {
				continue
			}
			d.notes = append(d.notes, fmt.Sprintf("%s (%s) lists cards for all: the file gives %d to each of %d machines, in the order of the list.", s.Name, s.Place, each, len(agents)))
		}
	}
}

// cardless are the machines that get cards: agents labelled for CUDA, else all, unless they have some.
func (d completion) cardless() []*machine {
	var all, cuda []*machine
	for _, m := range d.machines {
		if m.role != "agent" && len(d.machines) > 1 {
			continue
		}
		if d.root.find("nodes."+m.name+".gpus") != nil || m.group != "" && d.root.find("pools."+m.group+".gpus") != nil {
			return nil
		}
		all = append(all, m)
		if l := d.root.find("nodes." + m.name + ".labels"); l != nil && strings.Contains(l.yaml, "cuda") || strings.Contains(m.name, "gpu") || strings.Contains(m.group, "gpu") {
			cuda = append(cuda, m)
		}
	}
	if len(cuda) > 0 {
		return cuda
	}
	return all
}

// ansible handles an inventory, its variables, and a dotenv file that fills it or stands alone.
func (d *draft) ansible(src *sources) {
	inv := &src.inventory
	j := jinja{env: map[string]value{}, vars: map[string]value{}}
	names := map[place]string{}
	for _, e := range src.env {
		j.env[e.name], names[e.at] = e.value, e.name
	}
	for _, g := range inv.groups {
		for _, v := range g.vars {
			if g.name == "all" || roleOf(g.name) == "" {
				j.vars[v.name] = v.value
			}
		}
	}
	seen := map[string]bool{} // variables of the environment that went somewhere
	resolve := func(v field) (value, string) {
		got := j.resolve(v.value, 0)
		name := v.name
		if env, ok := names[got.at]; ok {
			seen[env], name = true, env
		}
		return got, name
	}
	for _, h := range inv.hosts {
		d.ansibleHost(inv, h, resolve)
	}
	for _, g := range inv.groups {
		for _, v := range g.vars {
			got, name := resolve(v)
			d.ansibleVar(g, v.name, name, got)
		}
	}
	for _, e := range src.env {
		if !seen[e.name] {
			d.variable(e.name, e.value)
		}
	}
	d.nfs()
	d.ceph()
}

func (d *draft) ansibleHost(inv *inventory, h *host, resolve func(field) (value, string)) {
	role := ""
	groups := inv.groupsOf(h.name)
	for _, g := range groups {
		role = orElse(role, orElse(roleOf(g), ""))
		if roleOf(g) == "none" || g == "localhost" {
			role = "none"
			break
		}
	}
	if role == "" {
		role = roleOf(h.name)
	}
	if role == "none" || role == "" {
		for _, v := range h.vars {
			got, name := resolve(v)
			s := d.add(h.name+"."+name, got)
			if normal(v.name) == "ansible_host" && strings.Contains(strings.Join(groups, " "), "proxmox") {
				d.clusterAs("proxmox_endpoint", s)
				continue
			}
			s.refuse("the host is not a node of the cluster: as a VM that is not a node, write it below vms")
			if isSecret(normal(name)) {
				s.refuse("it may be a secret")
			}
		}
		return
	}
	m := d.machine(h.name, h.at)
	m.role = orElse(m.role, role)
	m.group = orElse(m.group, d.groupOf(m.role))
	for _, v := range h.vars {
		got, name := resolve(v)
		s := d.add(h.name+"."+v.name, got)
		if name != v.name {
			s.Name = name
		}
		_, known := machineWordOf(v.name)
		if _, _, rest, ok := flatName(name); !known && ok {
			d.ofMachine(m, rest, s)
			continue
		}
		if !known && d.known(normal(v.name)) || strings.HasPrefix(v.name, "ansible_") && !known {
			d.clusterAs(v.name, s)
			continue
		}
		d.ofMachine(m, v.name, s)
	}
}

func (d *draft) ansibleVar(g *group, key, name string, v value) {
	role := roleOf(g.name)
	if _, ok := machineWordOf(key); ok && (role == "server" || role == "agent") && normal(key) != "ansible_host" {
		d.ofGroup(d.groupOf(role), key, d.add(name, v))
		return
	}
	d.variable(name, v)
}

// nfs joins server and path.
func (d *draft) nfs() {
	var server, path *setting
	for _, s := range d.settings {
		switch normal(s.Name) {
		case "nfs_server":
			server = s
		case "nfs_path", "nfs_export":
			path = s
		}
	}
	if server == nil || path == nil || server.value.kind != text || path.value.kind != text || !strings.HasPrefix(path.value.text, "/") {
		return
	}
	d.put(server, "storage.nfs.server", scalar(server.value.text))
	d.put(path, "storage.nfs.export", scalar(path.value.text))
}

// ceph joins the settings of a Ceph cluster.
func (d *draft) ceph() {
	is := map[string]*setting{}
	for _, s := range d.settings {
		is[normal(s.Name)] = s
	}
	on, id, mon, user, key := is["enable_ceph"], is["ceph_cluster_id"], is["ceph_mon_host"], is["ceph_k8s_user"], is["ceph_k8s_key"]
	if id == nil || mon == nil || user == nil || key == nil || on != nil && on.value.text != "true" || id.value.empty() || key.value.empty() {
		return
	}
	monitors, ok := mon.value.texts()
	if !ok {
		return
	}
	for i, m := range monitors {
		if _, err := netip.ParseAddrPort(m); err != nil {
			monitors[i] += ":6789"
		}
	}
	d.put(id, "storage.cephfs.clusterID", scalar(id.value.text))
	d.put(mon, "storage.cephfs.monitors", flow(monitors))
	d.put(user, "storage.cephfs.user", scalar(user.value.text))
	d.refer(key, "storage.cephfs.key")
	d.guess("storage.cephfs.fsName", "cephfs", "a guess: ceph fs ls shows it")
}
