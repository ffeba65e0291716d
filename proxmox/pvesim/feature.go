package pvesim

import (
	"slices"
	"strings"
)

// feature says whether a VM can be snapshotted, cloned or copied as it is.
func (c *call) feature() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	conf := v.conf
	if name := c.param("snapname"); name != "" {
		sn, err := v.snapshot(name)
		if err != nil {
			return nil, err
		}
		conf = sn.conf
	}
	has := true
	switch c.param("feature") {
	case "snapshot":
		has = c.s.canSnapshot(v, conf)
	case "clone":
		for _, k := range c.s.disks(conf) {
			_, vol, err := c.s.hosts[v.node].lookup(c.s.props(k, conf[k])["file"])
			has = has && err == nil && (isCloudInit(conf[k]) || linkable(vol))
		}
	}
	return map[string]any{"hasFeature": boolInt(has), "nodes": c.s.sharedNodes(v, conf)}, nil
}

// sharedNodes are those that see all the disks of a configuration.
func (s *Sim) sharedNodes(v *vm, conf map[string]string) []string {
	return slices.DeleteFunc(s.nodes(), func(node string) bool {
		return node != v.node && slices.ContainsFunc(s.disks(conf), func(k string) bool {
			st, _ := s.hosts[v.node].volume(s.props(k, conf[k])["file"])
			return st == nil || !st.Shared || s.hosts[node].storages[st.Name] == nil
		})
	})
}

// unlink removes disks from a configuration, as a PUT of config with delete does.
func (c *call) unlink() (any, error) {
	ch := change{delete: splitList(c.param("idlist")), force: c.p.bool("force")}
	if len(ch.delete) == 0 {
		return nil, die("no options specified")
	}
	for _, k := range ch.delete {
		if c.s.configKeys()[k] == nil {
			return nil, badParam("delete", "unknown option '"+k+"'")
		}
	}
	return nil, c.changeNow(ch)
}

// monitor answers the few commands of QEMU's that ask and change nothing.
func (c *call) monitor() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	command := strings.Fields(c.param("command"))
	if len(command) == 0 || command[0] != "info" && command[0] != "help" {
		if err := c.s.need(c.who, "/", "Sys.Modify"); err != nil {
			return nil, err
		}
	}
	if !v.running {
		return "ERROR: VM " + itoa(v.id) + " not running\n", nil
	}
	switch c.param("command") {
	case "info kvm":
		return "kvm support: " + map[bool]string{true: "enabled", false: "disabled"}[v.conf["kvm"] != "0"] + "\r\n", nil
	case "info status":
		return "VM status: " + map[bool]string{true: "paused", false: "running"}[v.paused] + "\r\n", nil
	case "info name":
		return v.conf["name"] + "\r\n", nil
	}
	return "", nil
}
