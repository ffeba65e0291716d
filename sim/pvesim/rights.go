package pvesim

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
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
		"VM.Config.Options": "agent autostart bios description keyboard localtime migrate_downtime migrate_speed name onboot ostype protection reboot startdate startup tdf template",
		"VM.Config.Disk":    "boot bootdisk vmstatestorage",
		"VM.PowerMgmt":      "freeze",
	} {
		for option := range strings.FieldsSeq(options) {
			out[option] = priv
		}
	}
	return out
})

var (
	cloudInitOption = regexp.MustCompile(`^(cicustom|cipassword|citype|ciuser|ciupgrade|nameserver|searchdomain|sshkeys|ipconfig\d+)$`)
	passedThrough   = regexp.MustCompile(`^(hostpci|usb|serial)\d+$`)
	// judgedByValue are options whose rights hang on what they are set to.
	judgedByValue = regexp.MustCompile(`^(cdrom|tags|(unused|serial|usb|hostpci|virtiofs)\d+)$`)
)

// needOnVM wants every one of some privileges on a VM, or on the pool that it is
// being made in (PVE/RPCEnvironment.pm, check_vm_perm).
func (s *state) needOnVM(who identity, vmid int, pool string, privs ...string) error {
	where := "/vms/" + strconv.Itoa(vmid)
	missing := func(path string) int {
		return slices.IndexFunc(privs, func(p string) bool { return !s.can(who, path, p) })
	}
	if pool != "" && missing("/pool/"+pool) < 0 {
		return nil
	}
	if i := missing(where); i >= 0 {
		return refuse(where, privs[i])
	}
	return nil
}

// mayConfigure checks the rights to set or delete options, all but those that hang
// on the value: drives, tags, passed-through devices.
func (c *call) mayConfigure(vmid int, options []string) error {
	if c.who.root() {
		return nil
	}
	pool := c.param("pool")
	need := func(privs ...string) error { return c.s.needOnVM(c.who, vmid, pool, privs...) }
	for _, k := range options {
		var err error
		switch {
		case isDrive(k), judgedByValue.MatchString(k):
		case optionPrivs()[k] != "":
			err = need(optionPrivs()[k])
			if err == nil && k == "startup" {
				err = c.s.need(c.who, "/", "Sys.Modify")
			}
		case numaKey.MatchString(k):
			err = need("VM.Config.CPU")
		case cloudInitOption.MatchString(k):
			if need("VM.Config.Cloudinit") != nil && need("VM.Config.Network") != nil {
				err = refuse("/vms/"+strconv.Itoa(vmid), "VM.Config.Cloudinit", "VM.Config.Network")
			}
		case strings.HasPrefix(k, "net"):
			err = need("VM.Config.Network")
		default:
			err = die("only root can set '%s' config", k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var numaKey = regexp.MustCompile(`^numa\d+$`)

// mayDrive checks the rights to put something into a drive of a VM that is there, or
// to take it out. Who makes a VM needs none of these.
func (s *state) mayDrive(who identity, vmid int, key, value string) error {
	if who.root() || value == "" {
		return nil
	}
	d := s.props(key, value)
	switch {
	case isCloudInit(d["file"]):
		return s.needOnVM(who, vmid, "", "VM.Config.Cloudinit", "VM.Config.CDROM")
	case isCDROM(d):
		return s.needOnVM(who, vmid, "", "VM.Config.CDROM")
	}
	return s.needOnVM(who, vmid, "", "VM.Config.Disk")
}

// mayChange checks the rights to change an option of a VM that is there as far as
// they hang on what it is set to, or was. Proxmox asks for them where it makes the
// change: of a POST that is in the task.
func (s *state) mayChange(who identity, vmid int, key, value string) error {
	switch {
	case value == "":
		return nil
	case unusedKey.MatchString(key):
		return s.mayFree(who, vmid, value)
	case isDrive(key):
		return s.mayDrive(who, vmid, key, value)
	case passedThrough.MatchString(key):
		return s.mayPassThrough(who, vmid, "", key, value)
	case strings.HasPrefix(key, "net"):
		return s.mayBridge(who, key, value)
	}
	return nil
}

// mayFree checks the rights to delete a disk that is out of use
// (PVE/QemuServer.pm, try_deallocate_drive).
func (s *state) mayFree(who identity, vmid int, volid string) error {
	if err := s.needOnVM(who, vmid, "", "VM.Config.Disk"); err != nil {
		return err
	}
	storage, _, _ := strings.Cut(volid, ":")
	return s.need(who, "/storage/"+storage, "Datastore.AllocateSpace")
}

// mayPassThrough checks the rights to set, or to remove, a passed-through device.
// Raw ones are for literal root@pam alone, and no token is.
func (s *state) mayPassThrough(who identity, vmid int, pool, key, value string) error {
	if who.root() || value == "" {
		return nil
	}
	hwType := func() error { return s.needOnVM(who, vmid, pool, "VM.Config.HWType") }
	d := s.props(key, value)
	switch {
	case strings.HasPrefix(key, "hostpci") && d["romfile"] != "" && d["host"] == "":
		return badParam(key, "only root@pam can set 'romfile' option")
	case strings.HasPrefix(key, "hostpci"):
		if err := s.mayMap(who, key, value); err != nil {
			return err
		}
		return hwType()
	case strings.HasPrefix(key, "usb"):
		if err := hwType(); err != nil {
			return err
		}
		return s.mayMap(who, key, value)
	case value == "socket": // of a serial port
		return hwType()
	}
	return die("only root can set '%s' config for real devices", key)
}

// mayMap checks the right to a device itself (PVE/QemuServer.pm, check_mapping_access).
func (s *state) mayMap(who identity, key, value string) error {
	if who.root() || strings.HasPrefix(key, "serial") {
		return nil
	}
	d := s.props(key, value)
	kind := "pci"
	if strings.HasPrefix(key, "usb") {
		kind = "usb"
	}
	switch {
	case kind == "usb" && strings.EqualFold(d["host"], "spice"):
		return nil
	case kind == "usb" && d["host"] != "":
		return die("only root can set '%s' config for real devices", key)
	case d["host"] != "":
		return die("only root can set '%s' config for non-mapped devices", key)
	case d["mapping"] == "":
		return die("either 'host' or 'mapping' must be set.")
	}
	return s.need(who, "/mapping/"+kind+"/"+d["mapping"], "Mapping.Use")
}

// mayBridge checks the right to plug into a bridge: into all of it, or into one
// VLAN (PVE/GuestHelpers.pm, check_vnet_access).
func (s *state) mayBridge(who identity, key, value string) error {
	d := s.props(key, value)
	if d["bridge"] == "" || who.root() {
		return nil
	}
	where := "/sdn/zones/localnetwork/" + d["bridge"]
	vlans := append(splitList(d["tag"]), strings.FieldsFunc(d["trunks"], func(r rune) bool { return r == ';' })...)
	for _, vlan := range vlans {
		if err := s.need(who, where+"/"+vlan, "SDN.Use"); err != nil {
			return err
		}
	}
	if len(vlans) > 0 {
		return nil
	}
	return s.need(who, where, "SDN.Use")
}

// rootOption refuses what only root may ask for.
func (c *call) rootOption(name string) error {
	if !c.p.has(name) || c.who.root() {
		return nil
	}
	return fail(http.StatusBadRequest, "Parameter verification failed.").with(name, "Only root may use this option.")
}
