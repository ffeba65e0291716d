package importer

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

var flat = regexp.MustCompile(`^(?:k3s_|k8s_|kube_|talos_|vm_)?` +
	`(control_planes?|controlplanes?|controllers?|control|masters?|servers?|cp|ctrl|` +
	`gpu_workers?|gpu_nodes?|workers?|agents?|nodes?|wk)_(?:(\d+)_)?(.+)$`)

// splitWord are names that look like a machine's and are not.
var splitWord = regexp.MustCompile(`^(?:node_name|node_netmask|node_cidr)$`)
var shapes = regexp.MustCompile(`^(?:defaults?_(\w+)|(\w+)_defaults?)$`)

// flatName takes apart names such as worker_ips, k8s_node_1_mem_mb and defaults_worker.
func flatName(name string) (role, number, rest string, ok bool) {
	if m := flat.FindStringSubmatch(normal(name)); m != nil {
		return roleOf(m[1]), m[2], m[3], true
	}
	return "", "", "", false
}

// flatSetting handles a variable whose name has a group: one value for all of the group, a list with one for each, or
// with a number one for one machine.
func (d *draft) flatSetting(name string, v value) bool {
	role, n, rest, ok := flatName(name)
	w, known := machineWordOf(rest)
	if !ok || !known && rest != "count" {
		return false
	}
	group := d.groupOf(role)
	switch {
	case n != "":
		d.ofMachine(d.machineNumber(role, n, v.at), rest, d.add(name, v))
	case v.kind == list && (w.key == "address" || w.key == "mac" || w.key == "vmid" || w.key == "host"):
		s := d.add(name, v)
		for i, item := range v.items {
			part := &setting{Setting: Setting{Name: s.Name, Place: item.at.String()}, value: item}
			d.ofMachine(d.machineNumber(role, strconv.Itoa(i+1), item.at), rest, part)
			s.take(part)
		}
		if len(v.items) == 0 {
			s.needless("it says nothing")
		}
	case w.key == "address" && v.kind == text && v.text != "":
		d.ofMachine(d.machineNumber(role, "1", v.at), rest, d.add(name, v))
	default:
		d.ofGroup(group, rest, d.add(name, v))
	}
	return true
}

// take is the fate of a list's items.
func (s *setting) take(part *setting) {
	if part.Fate == Needless {
		s.needless(part.Reason)
	}
	if len(s.Keys) == 0 && s.Fate == NoPlace && s.Reason == "" {
		s.Reason = part.Reason
	}
	for _, k := range part.Keys {
		s.carry(k)
	}
}

// machineNumber is the nth machine of a role.
func (d *draft) machineNumber(role, n string, at place) *machine {
	var known []*machine
	for _, m := range d.machines {
		if m.role == role || len(d.machines) == 1 && m.group == d.groupOf(role) {
			known = append(known, m)
			if strings.HasSuffix(m.name, "-"+n) {
				return m
			}
		}
	}
	if i, err := strconv.Atoi(n); err == nil && i >= 1 && i <= len(known) {
		return known[i-1]
	}
	m := d.machine(map[string]string{"server": "cp", "agent": "worker"}[role]+n, at)
	m.role, m.group = role, d.groupOf(role)
	return m
}

// variable handles a named value of a module, a dotenv file or a file of settings.
func (d *draft) variable(name string, v value) {
	lower := normal(name)
	if all := machinesOf(v); len(all) > 0 && !d.known(lower) {
		for _, f := range all {
			d.member(name, f.name, f.value)
		}
		return
	}
	if m := shapes.FindStringSubmatch(lower); m != nil && v.kind == object {
		if role := orElse(roleOf(m[1]+m[2]), ""); role != "" {
			d.shape(d.groupOf(role), name, v)
			return
		}
	}
	if !d.known(lower) && !v.empty() && d.ofKnownMachine(lower, name, v) {
		return
	}
	if !d.known(lower) && v.kind != object && !v.empty() && !splitWord.MatchString(lower) && d.flatSetting(name, v) {
		return
	}
	if role := roleOf(lower); v.kind == object && (role == "server" || role == "agent") && !d.known(lower) {
		if _, ok := machineWordOf(firstName(v)); ok {
			d.shape(d.groupOf(role), name, v)
			return
		}
	}
	if v.kind == object && !d.known(lower) && len(v.fields) > 0 {
		for _, f := range v.fields {
			d.variable(name+"."+f.name, f.value)
		}
		return
	}
	if v.kind == list && len(v.items) > 0 && v.items[0].kind == object {
		d.each(name, v, func(s *setting) { d.cluster(s) })
		return
	}
	d.cluster(d.add(name, v))
}

func firstName(v value) string {
	if len(v.fields) == 0 {
		return ""
	}
	return v.fields[0].name
}

// shape handles settings of all machines of a group.
func (d *draft) shape(group, name string, v value) {
	for _, f := range v.fields {
		if f.name == "disks" && f.kind == object {
			d.each(name+".disks", f.value, func(s *setting) {
				s.refuse("further disks of all machines of a group: write them below pools." + group + ".disks")
			})
			continue
		}
		d.ofGroup(group, f.name, d.add(name+"."+f.name, f.value))
	}
}

// ofKnownMachine handles NAME_setting of a machine that another input names.
func (d *draft) ofKnownMachine(lower, name string, v value) bool {
	for _, m := range d.machines {
		if rest, ok := strings.CutPrefix(lower, normal(m.name)+"_"); ok {
			if _, known := machineWordOf(rest); known {
				d.ofMachine(m, rest, d.add(name, v))
				return true
			}
		}
	}
	return false
}

// prefixOf is the network of addresses, of a length that is said elsewhere, or a guess.
func prefixOf(a netip.Addr, bits int) netip.Prefix {
	p, _ := a.Prefix(bits)
	return p
}
