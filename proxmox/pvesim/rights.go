package pvesim

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// What it takes to set an option (PVE/API2/Qemu.pm, check_vm_modify_config_perm).
var optionPrivs = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for priv, options := range map[string]string{
		"VM.Config.CPU":     "cores cpu cpulimit cpuunits numa smp sockets vcpus",
		"VM.Config.Memory":  "memory balloon shares allow-ksm",
		"VM.Config.HWType":  "acpi hotplug kvm machine scsihw smbios1 tablet vga watchdog audio0 rng0",
		"VM.Config.Options": "agent autostart bios description freeze keyboard localtime migrate_downtime migrate_speed name onboot ostype protection reboot startdate startup tags tdf template",
		"VM.Config.Disk":    "boot bootdisk vmstatestorage",
	} {
		for option := range strings.FieldsSeq(options) {
			out[option] = priv
		}
	}
	return out
})

var (
	cloudInitOption = regexp.MustCompile(`^(cicustom|cipassword|citype|ciuser|ciupgrade|nameserver|searchdomain|sshkeys|ipconfig\d+)$`)
	passedThrough   = regexp.MustCompile(`^(hostpci|usb|serial|parallel)\d+$`)
)

// noOptions are parameters of the config methods that are no options of a VM.
var noOptions = map[string]bool{"node": true, "vmid": true, "digest": true, "delete": true, "revert": true, "force": true, "skiplock": true,
	"background_delay": true, "pool": true, "storage": true, "start": true, "unique": true, "archive": true, "bwlimit": true,
	"import-working-storage": true, "live-restore": true, "ha-managed": true, "with-conntrack-state": true}

// mayConfigure checks the rights to set or delete options, all but those of
// passed-through devices.
func (c *call) mayConfigure(vmid int, options []string) error {
	if c.who.root() {
		return nil
	}
	where := "/vms/" + itoa(vmid)
	pool := c.param("pool")
	need := func(privs ...string) error {
		if pool != "" && slices.ContainsFunc(privs, func(p string) bool { return c.s.can(c.who, "/pool/"+pool, p) }) {
			return nil
		}
		return c.s.need(c.who, where, privs...)
	}
	for _, k := range options {
		var err error
		switch {
		case passedThrough.MatchString(k):
		case optionPrivs()[k] != "":
			err = need(optionPrivs()[k])
			if err == nil && k == "startup" {
				err = c.s.need(c.who, "/", "Sys.Modify")
			}
		case strings.HasPrefix(k, "numa"):
			err = need("VM.Config.CPU")
		case cloudInitOption.MatchString(k):
			err = need("VM.Config.Cloudinit", "VM.Config.Network")
		case strings.HasPrefix(k, "net"):
			err = need("VM.Config.Network")
		case k == "cdrom":
			err = need("VM.Config.CDROM")
		case isDrive(k):
			err = c.mayDrive(k, need)
		case unusedKey.MatchString(k):
			err = need("VM.Config.Disk")
		default:
			err = die("only root can set '%s' config", k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *call) mayDrive(k string, need func(...string) error) error {
	d := c.s.props(k, c.param(k))
	switch {
	case isCloudInit(d["file"]):
		return need("VM.Config.Cloudinit", "VM.Config.CDROM")
	case isCDROM(d):
		return need("VM.Config.CDROM")
	}
	return need("VM.Config.Disk")
}

// mayPassThrough checks the rights to set, or to remove, a passed-through device.
// Raw ones are for literal root@pam alone, and no token is.
func (s *Sim) mayPassThrough(who identity, vmid int, key, value string) error {
	if who.root() || value == "" {
		return nil
	}
	switch {
	case strings.HasPrefix(key, "hostpci"):
		d := s.props(key, value)
		switch {
		case d["host"] != "" || d["romfile"] != "":
			return die("only root can set '%s' config for non-mapped devices", key)
		case d["mapping"] == "":
			return die("either 'host' or 'mapping' must be set.")
		}
		if err := s.need(who, "/mapping/pci/"+d["mapping"], "Mapping.Use"); err != nil {
			return err
		}
		return s.need(who, "/vms/"+itoa(vmid), "VM.Config.HWType")
	case strings.HasPrefix(key, "serial") && value == "socket", strings.HasPrefix(key, "usb") && value == "spice":
		return s.need(who, "/vms/"+itoa(vmid), "VM.Config.HWType")
	case strings.HasPrefix(key, "usb") && strings.Contains(value, "mapping="):
		return s.need(who, "/vms/"+itoa(vmid), "VM.Config.HWType")
	}
	return die("only root can set '%s' config for real devices", key)
}

// mayBridge checks the right to plug into a bridge.
func (c *call) mayBridge(key, value string) error {
	if bridge := c.s.props(key, value)["bridge"]; bridge != "" {
		return c.s.need(c.who, "/sdn/zones/localnetwork/"+bridge, "SDN.Use")
	}
	return nil
}

// rootOption refuses what only root may ask for.
func (c *call) rootOption(name string) error {
	if !c.p.has(name) || c.who.root() {
		return nil
	}
	return fail(http.StatusBadRequest, "Parameter verification failed.").with(name, "Only root may use this option.")
}
