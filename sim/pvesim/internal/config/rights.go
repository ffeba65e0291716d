package config

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
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
	PassedThrough   = regexp.MustCompile(`^(hostpci|usb|serial)\d+$`)
	// judgedByValue are options whose rights hang on what they are set to.
	judgedByValue = regexp.MustCompile(`^(cdrom|tags|(unused|serial|usb|hostpci|virtiofs)\d+)$`)
)

// NeedOnVM wants every one of some privileges on a VM, or on the pool that it is
// being made in (PVE/RPCEnvironment.pm, check_vm_perm).
func NeedOnVM(s *world.State, who world.Identity, vmid int, pool string, privs ...string) error {
	where := "/vms/" + strconv.Itoa(vmid)
	missing := func(path string) int {
		return slices.IndexFunc(privs, func(p string) bool { return !access.Can(s, who, path, p) })
	}
	if pool != "" && missing("/pool/"+pool) < 0 {
		return nil
	}
	if i := missing(where); i >= 0 {
		return access.Refuse(where, privs[i])
	}
	return nil
}

// MayConfigure checks the rights to set or delete options, all but those that hang
// on the value: drives, tags, passed-through devices.
func MayConfigure(c *world.Call, vmid int, options []string) error {
	if c.Who.Root() {
		return nil
	}
	pool := c.Param("pool")
	need := func(privs ...string) error { return NeedOnVM(c.State, c.Who, vmid, pool, privs...) }
	for _, k := range options {
		var err error
		switch {
		case world.IsDrive(k), judgedByValue.MatchString(k):
		case optionPrivs()[k] != "":
			err = need(optionPrivs()[k])
			if err == nil && k == "startup" {
				err = access.Need(c.State, c.Who, "/", "Sys.Modify")
			}
		case NUMAKey.MatchString(k):
			err = need("VM.Config.CPU")
		case cloudInitOption.MatchString(k):
			if need("VM.Config.Cloudinit") != nil && need("VM.Config.Network") != nil {
				err = access.Refuse("/vms/"+strconv.Itoa(vmid), "VM.Config.Cloudinit", "VM.Config.Network")
			}
		case strings.HasPrefix(k, "net"):
			err = need("VM.Config.Network")
		default:
			err = answer.Die("only root can set '%s' config", k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// NUMAKey are the options that describe a node of the guest's NUMA.
var NUMAKey = regexp.MustCompile(`^numa\d+$`)

// mayDrive checks the rights to put something into a drive of a VM that is there, or
// to take it out. Who makes a VM needs none of these.
func mayDrive(s *world.State, who world.Identity, vmid int, key, value string) error {
	if who.Root() || value == "" {
		return nil
	}
	d := s.Props(key, value)
	switch {
	case world.IsCloudInit(d["file"]):
		return NeedOnVM(s, who, vmid, "", "VM.Config.Cloudinit", "VM.Config.CDROM")
	case world.IsCDROM(d):
		return NeedOnVM(s, who, vmid, "", "VM.Config.CDROM")
	}
	return NeedOnVM(s, who, vmid, "", "VM.Config.Disk")
}

// mayChange checks the rights to change an option of a VM that is there as far as
// they hang on what it is set to, or was. Proxmox asks for them where it makes the
// change: of a POST that is in the task.
func mayChange(s *world.State, who world.Identity, vmid int, key, value string) error {
	switch {
	case value == "":
		return nil
	case world.UnusedKey.MatchString(key):
		return mayFree(s, who, vmid, value)
	case world.IsDrive(key):
		return mayDrive(s, who, vmid, key, value)
	case PassedThrough.MatchString(key):
		return MayPassThrough(s, who, vmid, "", key, value)
	case strings.HasPrefix(key, "net"):
		return MayBridge(s, who, key, value)
	}
	return nil
}

// mayFree checks the rights to delete a disk that is out of use
// (PVE/QemuServer.pm, try_deallocate_drive).
func mayFree(s *world.State, who world.Identity, vmid int, volid string) error {
	if err := NeedOnVM(s, who, vmid, "", "VM.Config.Disk"); err != nil {
		return err
	}
	storage, _, _ := strings.Cut(volid, ":")
	return access.Need(s, who, "/storage/"+storage, "Datastore.AllocateSpace")
}

// MayPassThrough checks the rights to set, or to remove, a passed-through device.
// Raw ones are for literal root@pam alone, and no token is.
func MayPassThrough(s *world.State, who world.Identity, vmid int, pool, key, value string) error {
	if who.Root() || value == "" {
		return nil
	}
	hwType := func() error { return NeedOnVM(s, who, vmid, pool, "VM.Config.HWType") }
	d := s.Props(key, value)
	switch {
	case strings.HasPrefix(key, "hostpci") && d["romfile"] != "" && d["host"] == "":
		return answer.BadParam(key, "only root@pam can set 'romfile' option")
	case strings.HasPrefix(key, "hostpci"):
		if err := MayMap(s, who, key, value); err != nil {
			return err
		}
		return hwType()
	case strings.HasPrefix(key, "usb"):
		if err := hwType(); err != nil {
			return err
		}
		return MayMap(s, who, key, value)
	case value == "socket": // of a serial port
		return hwType()
	}
	return answer.Die("only root can set '%s' config for real devices", key)
}

// MayMap checks the right to a device itself (PVE/QemuServer.pm, check_mapping_access).
func MayMap(s *world.State, who world.Identity, key, value string) error {
	if who.Root() || strings.HasPrefix(key, "serial") {
		return nil
	}
	d := s.Props(key, value)
	kind := "pci"
	if strings.HasPrefix(key, "usb") {
		kind = "usb"
	}
	switch {
	case kind == "usb" && strings.EqualFold(d["host"], "spice"):
		return nil
	case kind == "usb" && d["host"] != "":
		return answer.Die("only root can set '%s' config for real devices", key)
	case d["host"] != "":
		return answer.Die("only root can set '%s' config for non-mapped devices", key)
	case d["mapping"] == "":
		return answer.Die("either 'host' or 'mapping' must be set.")
	}
	return access.Need(s, who, "/mapping/"+kind+"/"+d["mapping"], "Mapping.Use")
}

// MayBridge checks the right to plug into a bridge: into all of it, or into one
// VLAN (PVE/GuestHelpers.pm, check_vnet_access).
func MayBridge(s *world.State, who world.Identity, key, value string) error {
	d := s.Props(key, value)
	if d["bridge"] == "" || who.Root() {
		return nil
	}
	where := "/sdn/zones/" + s.SDN.Zone(d["bridge"]) + "/" + d["bridge"]
	vlans := append(schema.SplitList(d["tag"]), strings.FieldsFunc(d["trunks"], func(r rune) bool { return r == ';' })...)
	for _, vlan := range vlans {
		if err := access.Need(s, who, where+"/"+vlan, "SDN.Use"); err != nil {
			return err
		}
	}
	if len(vlans) > 0 {
		return nil
	}
	return access.Need(s, who, where, "SDN.Use")
}

// RootOption refuses what only root may ask for.
func RootOption(c *world.Call, name string) error {
	if v := c.Params.Get(name); v == "" || v == "0" || c.Who.Root() { // Perl's false
		return nil
	}
	return answer.Fail(http.StatusBadRequest, "Parameter verification failed.").WithParam(name, "Only root may use this option.")
}
