package guests

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// feature says whether a VM can be snapshotted, cloned or copied as it is.
func feature(c *world.Call) (any, error) {
	v, err := c.State.Find(c.VMID(), c.Param("node"))
	if err != nil {
		return nil, err
	}
	conf := v.Conf
	if name := c.Param("snapname"); name != "" {
		sn, err := v.Snapshot(name)
		if err != nil {
			return nil, err
		}
		conf = sn.Conf
	}
	has := config.Have(c.State, v, conf, c.Param("feature"), c.Param("snapname") != "")
	return map[string]any{"hasFeature": answer.Flag(has), "nodes": sharedNodes(c.State, v, conf)}, nil
}

// sharedNodes are those that see all the disks of a configuration.
func sharedNodes(s *world.State, v *world.VM, conf map[string]string) []string {
	return slices.DeleteFunc(s.Nodes(), func(node string) bool {
		return node != v.Node && slices.ContainsFunc(config.OwnDrives(s, conf), func(k string) bool {
			st, _ := s.Hosts[v.Node].Volume(s.Props(k, conf[k])["file"])
			return st == nil || !st.Shared || s.Hosts[node].Stores[st.Name] == nil
		})
	})
}

// unlink removes disks from a configuration, as a PUT of config with delete does.
func unlink(c *world.Call) (any, error) {
	ch := config.Change{Delete: schema.SplitList(c.Param("idlist")), Force: c.Params.Bool("force")}
	if len(ch.Delete) == 0 {
		return nil, answer.Die("no options specified")
	}
	for _, k := range ch.Delete {
		if c.State.ConfigKeys()[k] == nil {
			return nil, answer.BadParam("delete", "unknown option '"+k+"'")
		}
	}
	return nil, config.ChangeNow(c, ch)
}

// monitor answers the few commands of QEMU's that ask and change nothing.
func monitor(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	if err := mayMonitor(c); err != nil {
		return nil, err
	}
	if !v.Running {
		return "ERROR: VM " + strconv.Itoa(v.ID) + " not running\n", nil
	}
	switch c.Param("command") {
	case "info kvm":
		return "kvm support: " + map[bool]string{true: "enabled", false: "disabled"}[v.Conf["kvm"] != "0"] + "\r\n", nil
	case "info status":
		return "VM status: " + map[bool]string{true: "paused", false: "running"}[v.Paused] + "\r\n", nil
	case "info name":
		return v.Conf["name"] + "\r\n", nil
	case "info uuid":
		return c.State.Props("smbios1", v.Conf["smbios1"])["uuid"] + "\r\n", nil
	case "info version":
		return c.State.QEMU + "pve-qemu-kvm_" + release.QEMUPackage(c.State) + "\r\n", nil
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
func mayMonitor(c *world.Call) error {
	words := strings.Fields(c.Param("command"))
	if len(words) == 0 {
		return answer.Die("no command specified")
	}
	switch name := words[0]; {
	case name == "info", name == "help", name == "?", c.Who.Root():
		return nil
	case hmpModify.MatchString(name):
		return access.Need(c.State, c.Who, "/", "Sys.Modify")
	case hmpRoot.MatchString(name):
		return answer.Die("root-only command '%s'", name)
	default:
		return answer.Die("command '%s' non-existent or not assigned a required permission yet, limiting to root user", name)
	}
}
