package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// AllowedTags are those that somebody may give a machine, and whether that is any beside
// them: registered ones are for those who may change the cluster (PVE/GuestHelpers.pm,
// get_allowed_tags).
func AllowedTags(s *world.State, who world.Identity) (tags []string, free bool) {
	privileged := access.Can(s, who, "/", "Sys.Modify")
	rules, _ := ClusterOption(s, "user-tag-access", s.Datacenter["user-tag-access"]).(map[string]any)
	allow, _ := rules["user-allow"].(string)
	listed, _ := rules["user-allow-list"].([]string)
	tags = []string{}
	if allow != "none" || privileged {
		tags = append(tags, listed...)
	}
	if allow == "" || allow == "free" || allow == "existing" || privileged {
		for _, v := range s.VMsByID() {
			if privileged || access.Can(s, who, "/vms/"+strconv.Itoa(v.ID), "VM.Audit") {
				tags = append(tags, schema.SplitList(v.PendingConf()["tags"])...)
			}
		}
	}
	registered := schema.SplitList(s.Datacenter["registered-tags"])
	if privileged {
		tags = append(tags, registered...)
	} else {
		tags = slices.DeleteFunc(tags, func(t string) bool { return slices.Contains(registered, t) })
	}
	slices.Sort(tags)
	return slices.Compact(tags), allow == "" || allow == "free"
}

// ClusterOption is an option of the datacenter as GET /cluster/options shows it.
func ClusterOption(s *world.State, k, v string) any {
	p := s.Schema.Methods["PUT /cluster/options"].Parameters[k]
	switch {
	case k == "description":
		return strings.TrimRight(v, "\n") + "\n"
	case k == "registered-tags":
		return schema.SplitList(v)
	case p == nil || p.Format.Keys == nil || k == "bwlimit" || k == "location": // as they stand in the file
		return v
	}
	props, err := schema.ParseProps(p.Format.Keys, v)
	if err != nil {
		return v
	}
	out := map[string]any{}
	for key, value := range props {
		out[key] = value
		if kind := p.Format.Keys[key]; kind != nil && kind.Type == "boolean" {
			out[key] = schema.Atoi(value)
		}
	}
	if list, ok := out["user-allow-list"].(string); ok {
		out["user-allow-list"] = strings.Split(list, ";")
	}
	return out
}

// mayTag checks the right to change a VM's tags: each that comes or goes must be one that
// the caller may set (PVE/GuestHelpers.pm, assert_tag_permissions).
func mayTag(s *world.State, who world.Identity, vmid int, old, new string) error {
	if err := NeedOnVM(s, who, vmid, "", "VM.Config.Options"); err != nil || access.Can(s, who, "/", "Sys.Modify") {
		return err
	}
	had, has := schema.SplitList(old), schema.SplitList(new)
	allowed, free := AllowedTags(s, who)
	registered := schema.SplitList(s.Datacenter["registered-tags"])
	for _, tag := range append(has, had...) {
		switch {
		case slices.Contains(had, tag) && slices.Contains(has, tag):
		case !free && !slices.Contains(allowed, tag), slices.Contains(registered, tag):
			return access.Refuse("/", "Sys.Modify for modifying tag '"+tag+"'")
		}
	}
	return nil
}

// MayTagNew checks the right to give a VM that is being made its tags: a pool does
// not help, and 8 does not ask. Proxmox hands a hash over where the tags of before are
// wanted, and takes its name for one of them: no list allows that.
func MayTagNew(s *world.State, who world.Identity, vmid int, opts map[string]string) error {
	if opts["tags"] == "" || !s.IsNine() {
		return nil
	}
	return mayTag(s, who, vmid, "HASH(0x5d1c7e0b2a38)", opts["tags"])
}
