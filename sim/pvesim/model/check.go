package model

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
)

var (
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	pciIDs     = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}$`)
	pciClass   = regexp.MustCompile(`^[0-9a-f]{6}$`)
	nodeName   = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`)
	userID     = regexp.MustCompile(`^[^\s:/@!]+@[A-Za-z][A-Za-z0-9._-]+$`)
	tokenID    = regexp.MustCompile(`^[^\s:/@!]+@[A-Za-z][A-Za-z0-9._-]+![A-Za-z][A-Za-z0-9._-]+$`)
	volumeName = regexp.MustCompile(`^(iso|vztmpl|import|backup|snippets)/[^/]+$`)
)

// check finds what no cluster can be: its words name the value and the cure.
func (r *modelReader) check(m Model) {
	r.says("", len(m.Hosts) == 0, "a model needs hosts: a list with at least one")
	r.says(".version", m.Version != "" && !strings.HasPrefix(m.Version, "8.") && !strings.HasPrefix(m.Version, "9."), "version %s: 8.x and 9.x are simulated", m.Version)
	r.says(".nextID", m.NextID.Upper != 0 && m.NextID.Upper < max(m.NextID.Lower, minVMID), "nextID ends at %d, before it begins", m.NextID.Upper)
	hosts := map[string]Host{}
	for i, h := range m.Hosts {
		at := fmt.Sprintf(".hosts[%d]", i)
		_, twice := hosts[h.Name]
		r.says(at+".name", twice, "a second host %s", h.Name)
		hosts[h.Name] = h
		r.checkHost(at, h)
	}
	r.checkNetworks(m)
	r.checkVMs(m, hosts)
	r.checkMappings(m)
	r.checkAccess(m)
}

// minVMID is the least ID that Proxmox lets a VM have.
const minVMID = 100

// says adds what is wrong at a path, or at the nearest thing around it that the
// file has.
func (r *modelReader) says(path string, wrong bool, format string, args ...any) {
	if !wrong {
		return
	}
	for {
		if at, ok := r.places[path]; ok || path == "" {
			r.wrongAt(at, format, args...)
			return
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

func (r *modelReader) checkHost(at string, h Host) {
	r.says(at+".name", !nodeName.MatchString(h.Name), "%q is not a name for a host: letters, digits and hyphens", h.Name)
	r.says(at+".cpus", h.CPUs < 0, "cpus: %d", h.CPUs)
	r.says(at+".numaNodes", h.NUMANodes < 0, "numaNodes: %d", h.NUMANodes)
	seen := map[string]bool{}
	for i, d := range h.PCI {
		at := fmt.Sprintf("%s.pci[%d]", at, i)
		r.says(at+".address", !pciAddress.MatchString(d.Address), "%q is not a PCI address: write 0000:41:00.0, in lower case", d.Address)
		r.says(at+".address", seen[d.Address], "a second device at %s", d.Address)
		seen[d.Address] = true
		r.says(at+".id", !pciIDs.MatchString(d.ID), "%q is not a device ID: write vendor:device, as in 10de:20f1", d.ID)
		r.says(at+".subsystem", d.Subsystem != "" && !pciIDs.MatchString(d.Subsystem), "%q is not a subsystem ID: write vendor:device, as in 10de:145f", d.Subsystem)
		r.says(at+".class", !pciClass.MatchString(d.Class), "%q is not a PCI class: write six digits, as in 030200", d.Class)
		r.says(at+".numaNode", d.NUMANode < 0 || d.NUMANode >= max(1, h.NUMANodes), "NUMA node %d of %d", d.NUMANode, max(1, h.NUMANodes))
	}
	for i, d := range h.PCI {
		r.says(fmt.Sprintf("%s.pci[%d].virtualOf", at, i), d.VirtualOf != "" && (d.VirtualOf == d.Address || !seen[d.VirtualOf]), "%s is none of the other functions of %s", d.VirtualOf, h.Name)
	}
	names := map[string]bool{}
	for i, st := range h.Storages {
		at := fmt.Sprintf("%s.storages[%d]", at, i)
		r.says(at+".name", st.Name == "", "a storage needs a name")
		r.says(at+".name", names[st.Name], "a second storage %s on %s", st.Name, h.Name)
		names[st.Name] = true
		r.says(at+".type", st.Type == "", "a storage needs a type: dir, zfspool, lvmthin, nfs")
		for j, f := range st.Files {
			r.says(fmt.Sprintf("%s.files[%d].name", at, j), !volumeName.MatchString(f.Name), "%q is not a file of a storage: write its content type first, as in iso/debian.iso", f.Name)
		}
	}
	for i, list := range [][]string{h.VLANAware, h.NoPorts} {
		for j, b := range list {
			r.says(fmt.Sprintf("%s.%s[%d]", at, [...]string{"vlanAware", "noPorts"}[i], j), !slices.Contains(h.Bridges, b), "%s is none of the bridges of %s", b, h.Name)
		}
	}
}

// checkNetworks checks links and SDN.
func (r *modelReader) checkNetworks(m Model) {
	for i, z := range m.Zones {
		r.says(fmt.Sprintf(".zones[%d].type", i), !slices.Contains([]string{"simple", "vlan", "qinq", "vxlan", "evpn"}, z.Type), "there is no type %q of zones", z.Type)
	}
	for i, h := range m.Hosts {
		for name, e := range h.Links {
			r.says(fmt.Sprintf(".hosts[%d].links", i), e["type"] == "" && !slices.Contains(h.Bridges, name), "%s needs a type: eth, bond, bridge, vlan, OVSBridge, OVSPort, OVSIntPort, OVSBond", name)
		}
	}
}

func (r *modelReader) checkVMs(m Model, hosts map[string]Host) {
	pools := map[string]bool{}
	for _, p := range m.Pools {
		pools[p.ID] = true
	}
	ids, keys := map[int]bool{}, schema.Load().Methods["PUT /nodes/{node}/qemu/{vmid}/config"].Parameters
	for i, v := range m.VMs {
		at := fmt.Sprintf(".vms[%d]", i)
		r.says(at+".id", v.ID < minVMID || v.ID > 999999999, "%d is not a VMID: they go from 100 to 999999999", v.ID)
		r.says(at+".id", ids[v.ID], "a second VM %d", v.ID)
		ids[v.ID] = true
		_, there := hosts[v.Node]
		r.says(at+".node", !there, "VM %d is on node %q, which is none of the hosts", v.ID, v.Node)
		r.says(at+".pool", v.Pool != "" && !pools[v.Pool], "pool %s is none of the pools", v.Pool)
		r.says(at+".running", v.Running && v.Config["template"] == "1", "a template does not run")
		for k, value := range v.Config {
			p := keys[k]
			r.says(at+".config."+k, p == nil && k != "template" && k != "meta" && k != "parent" && k != "lock", "%s is not an option of a VM", k)
			if p != nil {
				text := oneLine(schema.CheckScalar(k, p, value))
				r.says(at+".config."+k, text != "", "%s: %s", k, text)
			}
		}
	}
	r.checkContainers(m, hosts, ids)
}

func (r *modelReader) checkMappings(m Model) {
	seen := map[string]bool{}
	for i, pm := range m.Mappings {
		path := "POST /cluster/mapping/pci"
		if pm.USB {
			path = "POST /cluster/mapping/usb"
		}
		keys := schema.Load().Methods[path].Parameters["map"].Items.Format.Keys
		at := fmt.Sprintf(".mappings[%d]", i)
		r.says(at+".id", pm.ID == "", "a mapping needs an id")
		r.says(at+".id", seen[pm.ID], "a second mapping %s", pm.ID)
		seen[pm.ID] = true
		for j, entry := range pm.Map {
			text := oneLine(schema.CheckProps("map", "", keys, entry))
			r.says(fmt.Sprintf("%s.map[%d]", at, j), text != "", "%s", text)
		}
	}
}

// checkContainers holds only what others would stumble over.
func (r *modelReader) checkContainers(m Model, hosts map[string]Host, ids map[int]bool) {
	for i, ct := range m.Containers {
		at := fmt.Sprintf(".containers[%d]", i)
		r.says(at+".id", ct.ID < minVMID || ids[ct.ID], "VMID %d is taken, or below 100", ct.ID)
		ids[ct.ID] = true
		_, there := hosts[ct.Node]
		r.says(at+".node", !there, "container %d is on node %q, which is none of the hosts", ct.ID, ct.Node)
		for j, line := range ct.Raw {
			r.says(fmt.Sprintf("%s.raw[%d]", at, j), !strings.HasPrefix(line, "lxc.") || !strings.Contains(line, ": "), "%q is not a line of LXC's: write lxc.mount.entry: …", line)
		}
	}
}

// oneLine makes of Proxmox's words for a parameter what fits behind a place.
func oneLine(text string) string {
	text = strings.TrimPrefix(text, "invalid format - ")
	return strings.ReplaceAll(strings.TrimSpace(strings.TrimPrefix(text, "format error\n")), "\n", "; ")
}

// checkAccess holds who may do what together. Who is not there is not refused:
// Proxmox keeps rights of users that are gone, too.
func (r *modelReader) checkAccess(m Model) {
	for i, u := range m.Users {
		r.says(fmt.Sprintf(".users[%d].id", i), !userID.MatchString(u.ID), "%q is not a user: write name@realm", u.ID)
	}
	for i, t := range m.Tokens {
		r.says(fmt.Sprintf(".tokens[%d].id", i), !tokenID.MatchString(t.ID), "%q is not a token: write name@realm!token, whose last part has two letters or more", t.ID)
	}
	for i, p := range m.Pools {
		r.says(fmt.Sprintf(".pools[%d].id", i), p.ID == "", "a pool needs an id")
	}
	for i, a := range m.ACLs {
		at := fmt.Sprintf(".acls[%d]", i)
		r.says(at+".path", !strings.HasPrefix(a.Path, "/"), "%q is not a path: it begins with /", a.Path)
		known := userID.MatchString(a.Who) || tokenID.MatchString(a.Who) || strings.HasPrefix(a.Who, "@")
		r.says(at+".who", !known, "%q is nobody: write name@realm, name@realm!token, or @group", a.Who)
		r.says(at+".role", a.Role == "", "an ACL needs a role")
	}
}
