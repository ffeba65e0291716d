package importer

import (
	"slices"
	"strings"
)

// completion is the last stage of a draft: what follows from all inputs together, and what package clusterfile says of it.
type completion struct{ *draft }

// finish adds what follows from all inputs together.
func (d completion) finish() {
	if d.options.Name != "" {
		d.root.drop("name")
		d.guess("name", scalar(d.options.Name), "")
	}
	d.guess("name", "homelab", "no input has one")
	external := d.root.find("proxmox.endpoint") == nil && !d.options.Lab && !slices.ContainsFunc(d.machines, func(m *machine) bool { return m.vm })
	d.lone()
	d.shareCards()
	for _, m := range d.machines {
		d.node(m, external)
	}
	d.scratch()
	d.removeEmptyPools()
	if external {
		d.existing()
	} else {
		d.proxmox()
		d.network()
	}
	d.root.drop("ssh.user")
	d.access(external)
	d.wholeSections()
	d.tellAdoption(external)
}

// existing drops what is about VMs. The nodes' network stays if services get addresses of it.
func (d completion) existing() {
	const reason = "the machines exist, and keep their system and network"
	if d.root.find("loadBalancer") != nil {
		d.network()
		for _, k := range slices.Clone(d.root.ensure([]string{"network"}).kids) {
			if k.name != "prefix" {
				d.root.drop("network." + k.name)
				d.loseKey("network."+k.name, reason)
			}
		}
	} else {
		d.root.drop("network")
		d.loseKey("network", reason)
	}
	for _, k := range []string{"proxmox", "defaults", "image"} {
		d.root.drop(k)
		d.loseKey(k, reason)
	}
}

// lone makes a single machine a server.
func (d completion) lone() {
	if len(d.machines) != 1 {
		return
	}
	m := d.machines[0]
	if p := d.root.find("pools.workers"); p != nil && m.role != "server" && m.group == p.name {
		d.rename("pools.workers", "pools.servers")
		p.name, m.group = "servers", "servers"
	}
	m.role = "server"
}

// node completes a machine's entry.
func (d completion) node(m *machine, external bool) {
	key := "nodes." + m.name
	at := d.root.ensure(strings.Split(key, "."))
	if m.group != "" && d.root.find("pools."+m.group) != nil {
		at.kids = slices.Insert(at.kids, 0, &node{name: "pool", yaml: scalar(m.group)})
	}
	if m.role == "server" || m.said != "" {
		at.kids = slices.Insert(at.kids, 0, &node{name: "role", yaml: orElse(m.role, "agent"), remark: m.said})
	}
	switch {
	case external && m.address.IsValid():
		user := "ubuntu"
		if n := d.root.find("ssh.user"); n != nil {
			user = strings.Trim(n.yaml, `"`)
		}
		for _, s := range d.settings {
			for i, k := range s.Keys {
				if k == key+".address" {
					s.Keys[i] = key + ".external"
				}
			}
		}
		for _, k := range []string{"address", "mac", "network"} {
			at.drop(k)
			d.loseKey(key+"."+k, "the machine exists, and keeps its network")
		}
		d.guess(key+".external", scalar(user+"@"+m.address.String()), m.at.String())
	case !m.address.IsValid():
		at.remark = "no input has its address: write address:"
	case d.options.Adopt && d.talos == nil:
		d.guess(key+".adopt", "true", "takes over the VM of this name")
	}
}

// scratch mounts the only further disk of a pool where volumes for scratch are to be.
func (d completion) scratch() {
	path, pools := d.root.find("storage.scratch.path"), d.root.kid("pools")
	if path == nil || pools == nil {
		return
	}
	for _, p := range pools.kids {
		disks := p.kid("disks")
		if disks == nil || len(disks.kids) != 2 || disks.kids[0].name != "os" || disks.kids[1].kid("mount") != nil {
			continue
		}
		key := "pools." + p.name + ".disks."
		d.rename(key+disks.kids[1].name, key+"scratch")
		disks.kids[1].name = "scratch"
		d.guess(key+"scratch.mount", path.yaml, "as "+strings.Join(path.places, ", ")+" has it")
	}
}

// removeEmptyPools drops pools that no node is in.
func (d completion) removeEmptyPools() {
	pools := d.root.kid("pools")
	if pools == nil {
		return
	}
	pools.kids = slices.DeleteFunc(pools.kids, func(p *node) bool {
		used := slices.ContainsFunc(d.machines, func(m *machine) bool { return m.group == p.name })
		if !used {
			d.loseKey("pools."+p.name, "no input names a machine of this group")
		}
		return !used
	})
	if len(pools.kids) == 0 {
		d.root.drop("pools")
	}
}

// loseKey is the fate of settings whose key is not in the file after all.
func (d *draft) loseKey(key, reason string) {
	for _, s := range d.settings {
		before := len(s.Keys)
		s.Keys = slices.DeleteFunc(s.Keys, func(k string) bool { return k == key || strings.HasPrefix(k, key+".") })
		if before > 0 && len(s.Keys) == 0 {
			s.Fate, s.Reason = NoPlace, reason
		}
	}
}

func (d completion) proxmox() {
	if d.options.Lab {
		for _, key := range []string{"proxmox.endpoint", "proxmox.token", "proxmox.secret", "proxmox.insecure", "image"} {
			d.root.drop(key)
			d.loseKey(key, "the lab needs none")
		}
		d.guess("proxmox.endpoint", "lab", "simulated hosts on this machine")
		return
	}
	if d.root.find("proxmox.endpoint") == nil {
		return
	}
	d.guess("proxmox.token", scalar("homelab@pve!cluster"), "no input has one; host:prep makes this one")
	d.guess("proxmox.secret", "env:PROXMOX_TOKEN_SECRET", "no input has one")
}

// network completes the nodes' network.
func (d completion) network() {
	if d.root.find("network.prefix") != nil {
		return
	}
	for _, m := range d.machines {
		if m.address.Is4() {
			bits, remark := 24, "a guess: no input says how long the network's prefix is"
			if d.bits > 0 && d.bits <= 32 {
				bits, remark = d.bits, ""
			}
			d.guess("network.prefix", scalar(prefixOf(m.address, bits).String()), remark)
			return
		}
	}
}

// access moves the user to where homelab has it, unless it is the default one.
func (d completion) access(external bool) {
	for _, s := range d.settings {
		if slices.Contains(s.Keys, "ssh.user") {
			s.Keys = slices.DeleteFunc(s.Keys, func(k string) bool { return k == "ssh.user" })
			switch {
			case s.value.text == "root":
				s.Fate = NoPlace
				s.refuse("homelab's VMs have an admin user who is not root: ubuntu")
			case external:
				s.Fate = Carried
				s.carry("nodes")
			case s.value.text == "ubuntu":
				s.Fate = NoPlace
				s.needless("it is homelab's default")
			default:
				d.put(s, "ssh.user", scalar(s.value.text))
			}
		}
	}
	if k := d.root.find("ssh.privateKey"); k != nil && !external && d.root.find("ssh.publicKeys") == nil {
		d.root.drop("ssh.privateKey")
		d.loseKey("ssh.privateKey", "with it belongs its public key, which no input has; homelab makes a key of its own")
	}
}

// wholeSections drops sections that lack what homelab cannot guess.
func (d completion) wholeSections() {
	for _, sec := range []struct{ section, needs, reason string }{
		{"storage.nfs", "server", "storage.nfs needs the server: write storage: {nfs: ADDRESS:/EXPORT}"},
		{"rancher", "hostname", "rancher needs a host name"},
		{"storage.scratch", "path", "storage.scratch needs a path"},
	} {
		n := d.root.find(sec.section)
		if n != nil && n.kid(sec.needs) == nil && n.yaml == "" {
			d.root.drop(sec.section)
			d.loseKey(sec.section, sec.reason)
		}
	}
	if s := d.root.kid("storage"); s != nil && len(s.kids) == 0 {
		d.root.drop("storage")
	}
	if n := d.root.kid("ssh"); n != nil && len(n.kids) == 0 {
		d.root.drop("ssh")
	}
}

// tellAdoption says what to do about machines that run.
func (d completion) tellAdoption(external bool) {
	switch {
	case len(d.machines) == 0:
	case d.talos != nil:
		d.notes = append(d.notes, "The machines run Talos ("+d.talos.Place+"), and such machines are not adopted: "+
			"the file describes new nodes with K3s; for Talos write distribution: talos (docs/talos.md). Their addresses and VMIDs are free only after the old VMs are gone.")
	case external:
		d.notes = append(d.notes, "No input names a Proxmox VE host, so the nodes are existing machines, which homelab reaches over SSH and never switches off.")
	case d.options.Adopt:
		d.notes = append(d.notes, "adopt: true makes the VMs the cluster's own: cluster:down destroys them. "+
			"remove the Kubernetes that another tool installed in them before cluster:up, which does not look for it.")
	case !d.options.Lab:
		d.notes = append(d.notes, "The file creates new VMs. If VMs with these names run already, remove them first, or write adopt: true (-adopt): docs/nodes.md#adopting-a-vm.")
	}
}
