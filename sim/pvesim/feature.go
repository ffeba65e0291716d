package pvesim

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// feature says whether a VM can be snapshotted, cloned or copied as it is.
func (c *call) feature() (any, error) {
	v, err := c.s.find(c.vmid(), c.param("node"))
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
func (s *state) sharedNodes(v *vm, conf map[string]string) []string {
	return slices.DeleteFunc(s.nodes(), func(node string) bool {
		return node != v.node && slices.ContainsFunc(s.carried(conf), func(k string) bool {
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
	if err := c.mayMonitor(); err != nil {
		return nil, err
	}
	if !v.running {
		return "ERROR: VM " + strconv.Itoa(v.id) + " not running\n", nil
	}
	switch c.param("command") {
	case "info kvm":
		return "kvm support: " + map[bool]string{true: "enabled", false: "disabled"}[v.conf["kvm"] != "0"] + "\r\n", nil
	case "info status":
		return "VM status: " + map[bool]string{true: "paused", false: "running"}[v.paused] + "\r\n", nil
	case "info name":
		return v.conf["name"] + "\r\n", nil
	case "info uuid":
		return c.s.props("smbios1", v.conf["smbios1"])["uuid"] + "\r\n", nil
	case "info version":
		return c.s.qemu + "pve-qemu-kvm_" + c.s.qemuPackage() + "\r\n", nil
	}
	return "", nil
}

// hmpModify are QEMU's commands that anyone who may modify the cluster may give, hmpRoot
// those that root@pam alone may (PVE/API2/Qemu/HMPPerms.pm).
var (
	hmpModify = regexp.MustCompile(`^(gpa2hpa|gpa2hva|gva2gpa|i|announce_self|backup_cancel|balloon|block_(job_(cancel|complete|pause|resume|set_speed)|resize|set_io_throttle)|` +
		`boot_set|calc_dirty_rate|(cancel|set)_vcpu_dirty_limit|chardev-send-break|closefd|commit|cont|c|cpu|delvm|eject|exit_preconfig|expire_password|getfd|` +
		`loadvm|log|migrate_(cancel|continue|pause|set_capability|set_parameter|start_postcopy)|mouse_(button|move|set)|one-insn-per-tb|print|p|qemu-io|qom-(get|list)|` +
		`quit|q|replay_(break|delete_break|seek)|ringbuf_(read|write)|savevm|sendkey|set_link|set_password|snapshot_(delete_)?blkdev_internal|stopcapture|stop|s|sum|` +
		`sync-profile|system_(powerdown|reset|wakeup)|trace-event|xp?|x_colo_lost_heartbeat)$`)
	hmpRoot = regexp.MustCompile(`^(block_stream|change|chardev-(add|change|remove)|device_(add|del)|drive_(add|backup|del|mirror)|dump-guest-memory|dumpdtb|gdbserver|` +
		`hostfwd_(add|remove)|logfile|mce|memsave|migrate|migrate_(incoming|recover)|nbd_server_(add|remove|start|stop)|netdev_(add|del)|nmi|o|object_(add|del)|` +
		`pcie_aer_inject_error|pmemsave|qom-set|savevm-(start|end)|screendump|snapshot_blkdev|watchdog_action|wavcapture|xen-event-(inject|list)|backup|client_migrate_info)$`)
)

// mayMonitor checks the right to give QEMU a command.
func (c *call) mayMonitor() error {
	words := strings.Fields(c.param("command"))
	if len(words) == 0 {
		return die("no command specified")
	}
	switch name := words[0]; {
	case name == "info", name == "help", name == "?", c.who.root():
		return nil
	case hmpModify.MatchString(name):
		return c.s.need(c.who, "/", "Sys.Modify")
	case hmpRoot.MatchString(name):
		return die("root-only command '%s'", name)
	default:
		return die("command '%s' non-existent or not assigned a required permission yet, limiting to root user", name)
	}
}
