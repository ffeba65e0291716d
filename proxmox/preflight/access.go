package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// checkGrants compares the token's permissions with those that are needed, and finds options that
// no token may set: "only root can set 'hostpci0' config for non-mapped devices". Proxmox refuses
// even a token of root (qemu-server, PVE/API2/Qemu.pm, $check_vm_modify_config_perm).
func checkGrants(w *Requirements, s *observation) []Finding {
	var out []Finding
	if s.permissions.err != nil {
		out = append(out, unobservedFinding("", s.permissions.err))
	} else {
		lacks, unclear := s.missingGrants(w)
		out = append(out, unclear...)
		for _, r := range proxmox.Roles(w.Role, lacks) {
			out = append(out, errorf(r.Path, grantCure(w, r, s.token, s.hasMore(w, r.Path)), "the token %s lacks %s: %s", s.token, r,
				strings.Join(r.Reasons, "; ")))
		}
	}
	out = append(out, checkTags(w, s)...)
	for _, vm := range w.VMs {
		if keys := rootKeys(vm, s.vms[vm.Name].is); len(keys) > 0 && !w.Ticket {
			out = append(out, errorf(vm.Name, "leave that out, or write proxmox.user: root@pam and proxmox.password",
				"%s uses %s, which Proxmox lets only root@pam itself set, not a token, not even root's", vm.Name, strings.Join(keys, ", ")))
		}
		for _, card := range rawDevices(s.vms[vm.Name].is) {
			out = append(out, errorf(vm.Name,
				fmt.Sprintf("take it out as root, and it gets a resource mapping: `qm set %d --delete %s`", s.vms[vm.Name].is.VMID,
					printable.Word(card.Slot)),
				"%s has a PCI device by its address (%s), which only root@pam itself may change", s.vms[vm.Name].is, card.Slot))
		}
	}
	return out
}

// checkTags checks whether the token may give each machine the owner's tag. The tag is a new one,
// so this needs user-allow=free in the datacenter's option user-tag-access, or Sys.Modify on /.
// Existing machines already have their tag.
func checkTags(w *Requirements, s *observation) []Finding {
	if s.permissions.err != nil || s.permissions.is.Has("/", "Sys.Modify", false) {
		return nil
	}
	if s.tags.err != nil {
		return []Finding{unobservedFinding("", s.tags.err)}
	}
	var worn []string
	for _, r := range s.residents.is {
		worn = append(worn, r.Tags...)
	}
	can, sure := s.tags.is.CanMark(w.Owner, worn)
	if can {
		return nil
	}
	say, seen := warnf, "it seems that "
	if sure {
		seen = ""
		if slices.ContainsFunc(w.VMs, func(vm VM) bool { return s.machine(vm.Name) == nil }) {
			say = errorf
		}
	}
	if slices.Contains(s.tags.is.Registered, w.Owner) {
		return []Finding{say(s.token, "take it out of the registered tags (Datacenter, Options)", "the tag %s, which machines of ours carry, is among the datacenter's registered-tags, and the token %s has no Sys.Modify on /", w.Owner, s.token)}
	}
	cure := "let anyone who may configure a machine set its tags, as root on any host: `" + s.tags.is.AllowCommand() + "`"
	if lost := s.tags.is.AllowCommandLoses(); lost != "" {
		cure = lost + "; " + cure
	}
	return []Finding{say(s.token, cure,
		"%sthe token %s may not give machines tags of their own, by which they are known as ours: the datacenter's option user-tag-access has user-allow=%s, and the token has no Sys.Modify on /",
		seen, s.token, orUnknown(s.tags.is.Allow))}
}

// checkPools checks whether resource pools exist. Proxmox lists only those that the token has
// Pool.Audit on.
func checkPools(w *Requirements, s *observation) []Finding {
	if s.pools.err != nil {
		return []Finding{unobservedFinding("", s.pools.err)}
	}
	missing := missingNames(w, s.pools.is, func(vm VM) []string { return []string{vm.Pool} })
	var out []Finding
	for _, pool := range slices.Sorted(maps.Keys(missing)) {
		out = append(out, errorf(pool, fmt.Sprintf("name another, or create it, as root on any host: `pveum pool add %s`", printable.Word(pool)),
			"there is no resource pool %s, for %s, or the token may not see it, which needs Pool.Audit on /pool/%s", pool, strings.Join(missing[pool], ", "), pool))
	}
	return out
}

// checkGroups checks whether security groups exist: Proxmox takes a rule with any name.
func checkGroups(w *Requirements, s *observation) []Finding {
	if s.groups.err != nil {
		return []Finding{unobservedFinding("", s.groups.err)}
	}
	missing := missingNames(w, s.groups.is, func(vm VM) []string { return vm.Groups })
	var out []Finding
	for _, group := range slices.Sorted(maps.Keys(missing)) {
		out = append(out, errorf(group, fmt.Sprintf("name another, or create it, as root on any host: `pvesh create /cluster/firewall/groups --group %s`, and its rules", printable.Word(group)),
			"there is no security group %s, for %s", group, strings.Join(missing[group], ", ")))
	}
	return out
}

// missingNames are the names that VMs want and that do not exist, each with its VMs.
func missingNames(w *Requirements, exist []string, wanted func(VM) []string) map[string][]string {
	missing := map[string][]string{}
	for _, vm := range w.VMs {
		for _, name := range wanted(vm) {
			if name != "" && !slices.Contains(exist, name) {
				missing[name] = append(missing[name], vm.Name)
			}
		}
	}
	return missing
}

// orUnknown returns allow, or a word for a value that Proxmox did not report.
func orUnknown(allow string) string {
	if allow == "" {
		return "list or none"
	}
	return allow
}

// localZone is the path of the hosts' bridges in Proxmox's tree of access control.
const localZone = "/sdn/zones/localnetwork/"

// missingGrants returns the grants that the token does not have. A bridge that turns out to be a VNet is
// in another zone, and Proxmox does not report here which one: SDN.Use on any zone that may have it
// is enough (pve-network, PVE/Network/SDN.pm, get_local_vnets).
func (s *observation) missingGrants(w *Requirements) (lacks []proxmox.Grant, unclear []Finding) {
	for _, g := range s.permissions.is.Missing(w.Grants) {
		name, bridge := strings.CutPrefix(g.Path, localZone)
		switch {
		case !bridge || !s.vnet(name):
			lacks = append(lacks, g)
		case !s.usesZoneOf(name):
			unclear = append(unclear, unobservedFinding(name,
				fmt.Errorf("whether the token may use the VNet %s cannot be seen: it wants SDN.Use on /sdn/zones/ZONE/%s", name, name)))
		}
	}
	return lacks, unclear
}

// vnet reports whether a bridge is a VNet of Proxmox's SDN, on a host that has it.
func (s *observation) vnet(name string) bool {
	for _, h := range s.byHost {
		if slices.ContainsFunc(h.bridges.is, func(b proxmox.Bridge) bool { return b.Name == name && b.Type == "vnet" }) {
			return true
		}
	}
	return false
}

// usesZoneOf reports whether the token has SDN.Use on a VNet, or on a whole zone.
func (s *observation) usesZoneOf(vnet string) bool {
	for where := range s.permissions.is {
		part := strings.Split(strings.TrimPrefix(where, "/sdn/zones/"), "/")
		switch {
		case !strings.HasPrefix(where, "/sdn/zones/"):
		case len(part) == 1 && s.permissions.is.Has(where, "SDN.Use", true),
			len(part) == 2 && part[1] == vnet && s.permissions.is.Has(where, "SDN.Use", false):
			return true
		}
	}
	return false
}

// rootKeys returns the options that only root may set, and whose values differ from the wanted
// ones.
func rootKeys(want VM, there *proxmox.VM) []string {
	return filter(slices.Sorted(maps.Keys(want.RootOnly)), func(key string) bool {
		switch {
		case there == nil:
			return true
		case key == "affinity":
			return there.Affinity != want.RootOnly[key]
		case key == "hugepages":
			return there.Hugepages != want.RootOnly[key]
		}
		return true
	})
}

// rawDevices returns a VM's passed-through devices without a mapping.
func rawDevices(vm *proxmox.VM) []proxmox.HostPCI {
	if vm == nil {
		return nil
	}
	return filter(vm.GPUs, func(g proxmox.HostPCI) bool { return g.Mapping == "" })
}

// grantCure returns the commands that grant the whole role on a path, even if part of it is granted
// already: a grant on a path replaces what is inherited from above, and does not add to it.
func grantCure(w *Requirements, r proxmox.Role, token string, inherits bool) string {
	careful := ""
	if user, _, _ := strings.Cut(token, "!"); user != "root@pam" && inherits {
		careful = fmt.Sprintf("; it replaces what %s and its token inherit on %s from above, so not for a user who does other work there", user, r.Path)
	}
	return "as root, on any host (homelab host:role prints all that is needed)" + careful + ": `" +
		strings.Join(proxmox.GrantCommands(w.Role, token, slices.Concat(w.Grants, w.ReadGrants), r.Path), "\n") + "`"
}

// hasMore reports whether the token has more privileges on a path than the grants need. A new entry
// on the path would replace the inherited privileges, and so remove these.
func (s *observation) hasMore(w *Requirements, path string) bool {
	var need []string
	for _, g := range slices.Concat(w.Grants, w.ReadGrants) {
		need = append(need, g.Privileges...)
	}
	for _, privileges := range s.permissions.is {
		for privilege := range privileges {
			if !slices.Contains(need, privilege) && s.permissions.is.Has(path, privilege, false) {
				return true
			}
		}
	}
	return false
}

// soon is how long before a token expires the check warns.
const soon = 14 * 24 * time.Hour

// checkToken checks which user the token belongs to and when it expires. A token may not read its
// own entry without User.Modify (pve-access-control, PVE/RPCEnvironment.pm, userid-param self).
func checkToken(_ *Requirements, s *observation) []Finding {
	var out []Finding
	user, name, _ := strings.Cut(s.token, "!")
	if user == "root@pam" {
		out = append(out, warnf(s.token, "make a user of its own with the least role: `homelab host:role`",
			"the token is root's: it may do nearly everything to the host, but not what Proxmox reserves for root@pam itself"))
	}
	switch {
	case s.info.err != nil:
		out = append(out, unobservedFinding(s.token, fmt.Errorf("the token cannot see its own expiry; on the host: pveum user token list %s",
			printable.Word(user))))
	case s.info.is.Expires.IsZero():
	case s.info.is.Expires.Sub(s.now) < soon:
		out = append(out, warnf(s.token,
			fmt.Sprintf("let it never expire: `pveum user token modify %s %s --expire 0`", printable.Word(user),
				printable.Word(name)), "the token expires on %s", s.info.is.Expires.UTC().Format("2 January 2006, 15:04 MST")))
	}
	return out
}

// checkNames finds VMs of other owners with a name of ours. They are not changed, and no VM is
// created beside them. A VM that carries our tag, a copy, blocks only the machine of that name.
func checkNames(_ *Requirements, s *observation) []Finding {
	if s.namesakes.err != nil {
		return []Finding{unobservedFinding("", s.namesakes.err)}
	}
	var out []Finding
	for _, c := range s.namesakes.is {
		evidence, cure, _ := strings.Cut(c.Error(), "\n")
		say := errorf
		if c.Tagged {
			say = warnf
		}
		f := say(c.Name, unindent(cure), "%s", evidence)
		f.Err = c
		out = append(out, f)
	}
	return out
}

// unindent removes the spaces at the start of every line.
func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

// checkVMIDs checks whether a requested VMID belongs to another owner (pve-manager,
// PVE/API2/Cluster.pm, nextid: "VM 100 already exists").
func checkVMIDs(w *Requirements, s *observation) []Finding {
	if s.residents.err != nil {
		return []Finding{unobservedFinding("", s.residents.err)}
	}
	var out []Finding
	for _, vm := range w.VMs {
		if vm.VMID == 0 {
			continue
		}
		ours := s.machine(vm.Name)
		i := slices.IndexFunc(s.residents.is, func(r proxmox.Resident) bool { return r.VMID == vm.VMID })
		cure := fmt.Sprintf("change or delete the vmid of %s", vm.Name)
		switch {
		case ours != nil && ours.VMID == vm.VMID:
		case i >= 0:
			r := s.residents.is[i]
			out = append(out, errorf(vm.Name, cure, "%s has vmid %d in the file, and that VM is %s on %s", vm.Name, vm.VMID, r.Name, r.Host))
		case s.vmids[vm.VMID].is:
			out = append(out, errorf(vm.Name, cure, "%s has vmid %d in the file, and that VM exists, invisible to the token", vm.Name,
				vm.VMID))
		case s.vmids[vm.VMID].err != nil:
			out = append(out, unobservedFinding(vm.Name, s.vmids[vm.VMID].err))
		}
	}
	return out
}

// checkStubs finds what a create leaves behind when its worker is killed: a VM without a name,
// locked forever. A token cannot unlock it (qemu-server, PVE/API2/Qemu.pm, skiplock), and its VMID
// and disks stay in use.
func checkStubs(w *Requirements, s *observation) []Finding {
	if s.residents.err != nil {
		return []Finding{unobservedFinding("", s.residents.err)}
	}
	var out []Finding
	for _, r := range s.residents.is {
		nameless := r.Name == "" || r.Name == fmt.Sprintf("VM %d", r.VMID)
		if r.Locked != "create" || r.Container || !nameless || len(r.Tags) > 0 || s.byHost[r.Host] == nil {
			continue
		}
		out = append(out, warnf(fmt.Sprintf("VM %d", r.VMID),
			fmt.Sprintf("if it is not being created or restored now, as root on %s: `qm unlock %d && qm destroy %d`", r.Host, r.VMID, r.VMID),
			"VM %d on %s is the stub of an interrupted create: it has no name, and still the lock of its creation", r.VMID, r.Host))
	}
	return out
}
