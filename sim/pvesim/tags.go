package pvesim

import (
	"slices"
	"strconv"
	"strings"
)

// allowedTags are those that somebody may give a machine, and whether that is any beside
// them: registered ones are for those who may change the cluster (PVE/GuestHelpers.pm,
// get_allowed_tags).
func (s *state) allowedTags(who identity) (tags []string, free bool) {
	privileged := s.can(who, "/", "Sys.Modify")
	rules, _ := s.clusterOption("user-tag-access", s.options["user-tag-access"]).(map[string]any)
	allow, _ := rules["user-allow"].(string)
	listed, _ := rules["user-allow-list"].([]string)
	tags = []string{}
	if allow != "none" || privileged {
		tags = append(tags, listed...)
	}
	if allow == "" || allow == "free" || allow == "existing" || privileged {
		for _, v := range s.sorted() {
			if privileged || s.can(who, "/vms/"+strconv.Itoa(v.id), "VM.Audit") {
				tags = append(tags, splitList(v.wanted()["tags"])...)
			}
		}
	}
	registered := splitList(s.options["registered-tags"])
	if privileged {
		tags = append(tags, registered...)
	} else {
		tags = slices.DeleteFunc(tags, func(t string) bool { return slices.Contains(registered, t) })
	}
	slices.Sort(tags)
	return slices.Compact(tags), allow == "" || allow == "free"
}

func (s *state) clusterOption(k, v string) any {
	p := s.schema.Methods["PUT /cluster/options"].Parameters[k]
	switch {
	case k == "description":
		return strings.TrimRight(v, "\n") + "\n"
	case k == "registered-tags":
		return splitList(v)
	case p == nil || p.Format.Keys == nil || k == "bwlimit" || k == "location": // as they stand in the file
		return v
	}
	props, err := parseProps(p.Format.Keys, v)
	if err != nil {
		return v
	}
	out := map[string]any{}
	for key, value := range props {
		out[key] = value
		if kind := p.Format.Keys[key]; kind != nil && kind.Type == "boolean" {
			out[key] = atoi(value)
		}
	}
	if list, ok := out["user-allow-list"].(string); ok {
		out["user-allow-list"] = strings.Split(list, ";")
	}
	return out
}

// mayTag checks the right to change a VM's tags: each that comes or goes must be one that
// the caller may set (PVE/GuestHelpers.pm, assert_tag_permissions).
func (s *state) mayTag(who identity, vmid int, old, new string) error {
	if err := s.needOnVM(who, vmid, "", "VM.Config.Options"); err != nil || s.can(who, "/", "Sys.Modify") {
		return err
	}
	had, has := splitList(old), splitList(new)
	allowed, free := s.allowedTags(who)
	registered := splitList(s.options["registered-tags"])
	for _, tag := range append(has, had...) {
		switch {
		case slices.Contains(had, tag) && slices.Contains(has, tag):
		case !free && !slices.Contains(allowed, tag), slices.Contains(registered, tag):
			return refuse("/", "Sys.Modify for modifying tag '"+tag+"'")
		}
	}
	return nil
}

// mayTagNew checks the right to give a VM that is being made its tags: a pool does
// not help, and 8 does not ask. Proxmox hands a hash over where the tags of before are
// wanted, and takes its name for one of them: no list allows that.
func (s *state) mayTagNew(who identity, vmid int, opts map[string]string) error {
	if opts["tags"] == "" || !s.nine() {
		return nil
	}
	return s.mayTag(who, vmid, "HASH(0x5d1c7e0b2a38)", opts["tags"])
}
