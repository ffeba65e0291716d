package pvesim

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/iso9660"
)

func cloudDriveHandlers() map[string]handler {
	const drive = "/nodes/{node}/qemu/{vmid}/cloudinit"
	return map[string]handler{
		"GET " + drive:           (*call).cloudDrive,
		"PUT " + drive:           (*call).renewCloudDrive,
		"GET " + drive + "/dump": (*call).dumpCloudDrive,
	}
}

// cloudOptions are the options of a configuration that are for cloud-init.
func cloudOptions(conf map[string]string) map[string]string {
	out := map[string]string{}
	for k, value := range conf {
		if cloudInitOption.MatchString(k) || k == "name" || netKey.MatchString(k) {
			out[k] = value
		}
	}
	return out
}

// listedOption are the options of cloud-init that are shown where they have not come
// or gone (PVE/API2/Qemu.pm, cloudinitoptions).
var listedOption = regexp.MustCompile(`^(cicustom|cipassword|citype|ciuser|ciupgrade|nameserver|searchdomain|sshkeys)$`)

// cloudDrive compares what is on the cloud-init drive with what it would be now.
func (c *call) cloudDrive() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	now := cloudOptions(v.conf)
	was := v.cloudDrive
	if was == nil {
		was = now
	}
	out := []any{}
	for _, k := range slices.Sorted(maps.Keys(now)) {
		e := map[string]any{"key": k}
		switch old, there := was[k]; {
		case !there:
			e["pending"] = c.s.typed(k, now[k])
		case !listedOption.MatchString(k) || now[k] == "0":
			continue
		case old != now[k]:
			e["value"], e["pending"] = c.s.typed(k, old), c.s.typed(k, now[k])
		default:
			e["value"] = c.s.typed(k, old)
		}
		out = append(out, e)
	}
	for _, k := range slices.Sorted(maps.Keys(was)) {
		if _, still := now[k]; !still {
			out = append(out, map[string]any{"key": k, "delete": 1})
		}
	}
	return out, nil
}

// renewCloudDrive writes the drive anew.
func (c *call) renewCloudDrive() (any, error) {
	v, unlock, err := c.begin(c.worker(), change{})
	if err != nil {
		return nil, err
	}
	defer unlock()
	if slices.ContainsFunc(drives(v.conf), func(k string) bool { return isCloudInit(c.s.props(k, v.conf[k])["file"]) }) {
		for _, volid := range c.s.props("cicustom", v.conf["cicustom"]) {
			if _, _, err := c.host().lookup(volid); err != nil {
				return nil, err
			}
		}
	}
	v.cloudDrive = cloudOptions(v.conf)
	return nil, nil
}

func (c *call) dumpCloudDrive() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	mask := !c.s.can(c.who, "/vms/"+itoa(v.id), "VM.Config.Cloudinit")
	switch c.param("type") {
	case "user":
		return v.cloudUser(mask), nil
	case "network":
		return c.s.cloudNetwork(v), nil
	}
	return c.s.cloudFile(v, "meta"), nil
}

// cloudUser is the user-data that Proxmox makes of a configuration
// (PVE/QemuServer/Cloudinit.pm, cloudinit_userdata).
func (v *vm) cloudUser(mask bool) string {
	host := v.conf["name"]
	if host == "" {
		host = "VM" + itoa(v.id)
	}
	full := host
	if short, _, dotted := strings.Cut(host, "."); dotted {
		host = short
	} else if domain := v.conf["searchdomain"]; domain != "" {
		full = host + "." + domain
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#cloud-config\nhostname: %s\nmanage_etc_hosts: true\nfqdn: %s\n", host, full)
	user, password := v.conf["ciuser"], v.conf["cipassword"]
	if user != "" {
		fmt.Fprintf(&b, "user: %s\n", user)
	}
	if user == "root" {
		b.WriteString("disable_root: False\n")
	}
	if password != "" && mask {
		password = "**********"
	}
	if password != "" {
		fmt.Fprintf(&b, "password: %s\n", password)
	}
	if keys, err := url.PathUnescape(v.conf["sshkeys"]); err == nil && keys != "" {
		b.WriteString("ssh_authorized_keys:\n")
		for k := range strings.Lines(keys) {
			if k = strings.TrimSpace(k); k != "" {
				fmt.Fprintf(&b, "  - %s\n", k)
			}
		}
	}
	b.WriteString("chpasswd:\n  expire: False\n")
	if user != "root" {
		b.WriteString("users:\n  - default\n")
	}
	if v.conf["ciupgrade"] != "0" {
		b.WriteString("package_upgrade: true\n")
	}
	return b.String()
}

// cloudDisc is the disc in a cloud-init drive: what the guest reads of it. Its
// network configuration is in version 2, which is the one that guests here know;
// Proxmox's own is in version 1 and says the same.
func (s *Sim) cloudDisc(v *vm) []byte {
	files := map[string][]byte{}
	for name, of := range map[string]string{"user-data": "user", "meta-data": "meta", "network-config": "network"} {
		files[name] = []byte(s.cloudFile(v, of))
		custom := s.props("cicustom", v.conf["cicustom"])[of]
		if _, vol, err := s.hosts[v.node].lookup(custom); err == nil && vol.data != nil {
			files[name] = vol.data
		}
	}
	disc, err := iso9660.Build("cidata", files)
	if err != nil {
		s.opts.Log.Debug("cloud-init drive", "vmid", v.id, "error", err)
	}
	return disc
}

func (s *Sim) cloudFile(v *vm, kind string) string {
	switch kind {
	case "user":
		return v.cloudUser(false)
	case "network":
		return s.cloudNetplan(v)
	}
	sum := sha1.Sum([]byte(v.cloudUser(false) + s.cloudNetwork(v)))
	return "instance-id: " + hex.EncodeToString(sum[:]) + "\n"
}

// cloudCard is an interface that has an address from its VM's configuration.
type cloudCard struct {
	mac string
	ip  map[string]string // of ipconfigN
}

// cloudCards are a VM's, by their number.
func (s *Sim) cloudCards(v *vm) iter.Seq2[int, cloudCard] {
	return func(yield func(int, cloudCard) bool) {
		for i := range 32 {
			card, config := v.conf["net"+itoa(i)], v.conf["ipconfig"+itoa(i)]
			if card == "" || config == "" {
				continue
			}
			if !yield(i, cloudCard{strings.ToLower(s.props("net0", card)["macaddr"]), s.props("ipconfig0", config)}) {
				return
			}
		}
	}
}

// cloudNetplan is the network configuration in version 2 (nocloud_network_v2).
func (s *Sim) cloudNetplan(v *vm) string {
	var b strings.Builder
	b.WriteString("version: 2\nethernets:\n")
	for i, card := range s.cloudCards(v) {
		ip := card.ip
		fmt.Fprintf(&b, "    net%d:\n        match:\n            macaddress: \"%s\"\n        set-name: eth%d\n", i, card.mac, i)
		switch ip["ip"] {
		case "":
		case "dhcp":
			b.WriteString("        dhcp4: true\n")
		default:
			fmt.Fprintf(&b, "        addresses:\n        - '%s'\n", ip["ip"])
		}
		if ip["gw"] != "" {
			fmt.Fprintf(&b, "        gateway4: '%s'\n", ip["gw"])
		}
		fmt.Fprintf(&b, "        nameservers:\n          addresses:\n          - '%s'\n", strings.Join(v.nameServers(), "'\n          - '"))
	}
	return b.String()
}

// nameServers are those of a configuration, or the host's own.
func (v *vm) nameServers() []string {
	if servers := splitList(v.conf["nameserver"]); len(servers) > 0 {
		return servers
	}
	return []string{"192.0.2.53"}
}

// cloudNetwork is the network configuration that Proxmox makes (nocloud_network).
func (s *Sim) cloudNetwork(v *vm) string {
	var b strings.Builder
	b.WriteString("version: 1\nconfig:\n")
	for i, card := range s.cloudCards(v) {
		ip := card.ip
		fmt.Fprintf(&b, "    - type: physical\n      name: eth%d\n      mac_address: '%s'\n      subnets:\n", i, card.mac)
		b.WriteString(subnet4(ip) + subnet6(ip))
	}
	servers, domains := v.nameServers(), splitList(v.conf["searchdomain"])
	if len(domains) == 0 {
		domains = []string{"example.internal"}
	}
	fmt.Fprintf(&b, "    - type: nameserver\n      address:\n      - '%s'\n      search:\n      - '%s'\n", strings.Join(servers, "'\n      - '"), strings.Join(domains, "'\n      - '"))
	return b.String()
}

func subnet4(ip map[string]string) string {
	if ip["ip"] == "" {
		return ""
	}
	if ip["ip"] == "dhcp" {
		return "      - type: dhcp4\n"
	}
	p, err := netip.ParsePrefix(ip["ip"])
	if err != nil {
		return ""
	}
	out := fmt.Sprintf("      - type: static\n        address: '%s'\n        netmask: '%s'\n", p.Addr(), net.IP(net.CIDRMask(p.Bits(), 32)))
	if ip["gw"] != "" {
		out += fmt.Sprintf("        gateway: '%s'\n", ip["gw"])
	}
	return out
}

func subnet6(ip map[string]string) string {
	switch ip["ip6"] {
	case "":
		return ""
	case "dhcp":
		return "      - type: dhcp6\n"
	case "auto":
		return "      - type: ipv6_slaac\n"
	}
	out := fmt.Sprintf("      - type: static6\n        address: '%s'\n", ip["ip6"])
	if ip["gw6"] != "" {
		out += fmt.Sprintf("        gateway: '%s'\n", ip["gw6"])
	}
	return out
}
