package config

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/iso"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func cloudDriveHandlers() map[string]world.Handler {
	const drive = "/nodes/{node}/qemu/{vmid}/cloudinit"
	return map[string]world.Handler{
		"GET " + drive:           cloudDrive,
		"PUT " + drive:           renewCloudDrive,
		"GET " + drive + "/dump": dumpCloudDrive,
	}
}

// CloudOptions are the options of a configuration that are for cloud-init.
func CloudOptions(conf map[string]string) map[string]string {
	out := map[string]string{}
	for k, value := range conf {
		if cloudInitOption.MatchString(k) || k == "name" || world.NetKey.MatchString(k) {
			out[k] = value
		}
	}
	return out
}

// listedOption are the options of cloud-init that are shown where they have not come
// or gone (PVE/API2/Qemu.pm, cloudinitoptions).
var listedOption = regexp.MustCompile(`^(cicustom|cipassword|citype|ciuser|ciupgrade|nameserver|searchdomain|sshkeys)$`)

// cloudDrive compares what is on the cloud-init drive with what it would be now.
func cloudDrive(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	now := CloudOptions(v.Conf)
	was := v.CloudDrive
	if was == nil {
		was = now
	}
	out := []any{}
	for _, k := range slices.Sorted(maps.Keys(now)) {
		e := map[string]any{"key": k}
		switch old, there := was[k]; {
		case !there:
			e["pending"] = c.State.ConfigValue(k, now[k])
		case !listedOption.MatchString(k) || now[k] == "0":
			continue
		case old != now[k]:
			e["value"], e["pending"] = c.State.ConfigValue(k, old), c.State.ConfigValue(k, now[k])
		default:
			e["value"] = c.State.ConfigValue(k, old)
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

// renewCloudDrive writes the drive again.
func renewCloudDrive(c *world.Call) (any, error) {
	v, unlock, err := Begin(c, c.Worker(), Change{})
	if err != nil {
		return nil, err
	}
	defer unlock()
	if slices.ContainsFunc(world.Drives(v.Conf), func(k string) bool { return world.IsCloudInit(c.State.Props(k, v.Conf[k])["file"]) }) {
		for _, volid := range c.State.Props("cicustom", v.Conf["cicustom"]) {
			if _, _, err := c.Host().Lookup(volid); err != nil {
				return nil, err
			}
		}
	}
	v.CloudDrive = CloudOptions(v.Conf)
	return nil, nil
}

func dumpCloudDrive(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	mask := !access.Can(c.State, c.Who, "/vms/"+strconv.Itoa(v.ID), "VM.Config.Cloudinit")
	network := cloudNetwork(c.State, v)
	configDrive := configDrive(v)
	if configDrive {
		network = cloudInterfaces(c.State, v)
	}
	switch c.Param("type") {
	case "user":
		return cloudUser(v, mask), nil
	case "network":
		return network, nil
	}
	sum := sha1.Sum([]byte(cloudUser(v, false) + network))
	if id := hex.EncodeToString(sum[:]); configDrive {
		return fmt.Sprintf("{\n     \"uuid\": %q,\n     \"network_config\": { \"content_path\": \"/content/0000\" }\n}\n", id), nil
	}
	return cloudFile(c.State, v, "meta"), nil
}

// configDrive reports whether a cloud-init drive is not in the form that is usual for
// Linux (PVE/QemuServer/Cloudinit.pm, get_cloudinit_format).
func configDrive(v *world.VM) bool {
	if kind := v.Conf["citype"]; kind != "" {
		return kind != "nocloud"
	}
	return windowsType.MatchString(v.Conf["ostype"])
}

// windowsType are the systems of which Proxmox knows that they are Windows (windows_version).
var windowsType = regexp.MustCompile(`^(wxp|w2k3|w2k|wvista|w2k8|win[0-9]+)$`)

// cloudUser is the user-data that Proxmox makes of a configuration
// (PVE/QemuServer/Cloudinit.pm, cloudinit_userdata).
func cloudUser(v *world.VM, mask bool) string {
	host := v.Conf["name"]
	if host == "" {
		host = "VM" + strconv.Itoa(v.ID)
	}
	full := host
	if short, _, dotted := strings.Cut(host, "."); dotted {
		host = short
	} else if domain := v.Conf["searchdomain"]; domain != "" {
		full = host + "." + domain
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#cloud-config\nhostname: %s\nmanage_etc_hosts: true\nfqdn: %s\n", host, full)
	user, password := v.Conf["ciuser"], v.Conf["cipassword"]
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
	if keys, err := url.PathUnescape(v.Conf["sshkeys"]); err == nil && keys != "" {
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
	if v.Conf["ciupgrade"] != "0" {
		b.WriteString("package_upgrade: true\n")
	}
	return b.String()
}

var hashedPassword = regexp.MustCompile(`^\$(?:[156]|2[ay])(\$.+){2}`)

// passwordHash looks like what crypt makes of a password, and is none of it: nobody logs in with it.
func passwordHash(password string) string {
	sum := sha256.Sum256([]byte(password))
	hash := strings.ReplaceAll(base64.RawStdEncoding.EncodeToString(sum[:]), "+", ".")
	return "$5$" + hash[:8] + "$" + hash
}

// CloudDisc is the disc in a cloud-init drive: what the guest reads of it. Its
// network configuration is in version 2, which is the one that guests here know;
// Proxmox's own is in version 1 and says the same.
func CloudDisc(s *world.State, v *world.VM) []byte {
	files := map[string][]byte{}
	for name, of := range map[string]string{"user-data": "user", "meta-data": "meta", "network-config": "network"} {
		files[name] = []byte(cloudFile(s, v, of))
		custom := s.Props("cicustom", v.Conf["cicustom"])[of]
		if _, vol, err := s.Hosts[v.Node].Lookup(custom); err == nil && vol.Data != nil {
			files[name] = vol.Data
		}
	}
	disc, err := iso.Write("cidata", files)
	if err != nil {
		s.Options.Log.Debug("cloud-init drive", "vmid", v.ID, "error", err)
	}
	return disc
}

func cloudFile(s *world.State, v *world.VM, kind string) string {
	switch kind {
	case "user":
		return cloudUser(v, false)
	case "network":
		return cloudNetplan(s, v)
	}
	sum := sha1.Sum([]byte(cloudUser(v, false) + cloudNetwork(s, v)))
	return "instance-id: " + hex.EncodeToString(sum[:]) + "\n"
}

// cloudCard is an interface that has an address from its VM's configuration.
type cloudCard struct {
	mac string
	ip  map[string]string // of ipconfigN
}

// cloudCards are a VM's, by their number.
func cloudCards(s *world.State, v *world.VM) iter.Seq2[int, cloudCard] {
	return func(yield func(int, cloudCard) bool) {
		for _, k := range slices.Sorted(maps.Keys(v.Conf)) { // net10 comes before net2
			i, err := strconv.Atoi(strings.TrimPrefix(k, "net"))
			if err != nil {
				continue
			}
			card, config := v.Conf["net"+strconv.Itoa(i)], v.Conf["ipconfig"+strconv.Itoa(i)]
			if card == "" || config == "" {
				continue
			}
			if !yield(i, cloudCard{strings.ToLower(s.Props("net0", card)["macaddr"]), s.Props("ipconfig0", config)}) {
				return
			}
		}
	}
}

// cloudNetplan is the network configuration in version 2 (nocloud_network_v2).
func cloudNetplan(s *world.State, v *world.VM) string {
	var b strings.Builder
	b.WriteString("version: 2\nethernets:\n")
	servers, _ := cloudDNS(s, v)
	for i, card := range cloudCards(s, v) {
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
		if len(servers) > 0 {
			fmt.Fprintf(&b, "        nameservers:\n          addresses:\n          - '%s'\n", strings.Join(servers, "'\n          - '"))
		}
	}
	return b.String()
}

// cloudDNS is the servers and domains of a configuration, or the host's own (get_dns_conf).
func cloudDNS(s *world.State, v *world.VM) (servers, domains []string) {
	h := s.Hosts[v.Node]
	dns := nodes.NameService(h)
	for _, k := range []string{"dns1", "dns2", "dns3"} {
		if dns[k] != "" {
			servers = append(servers, dns[k])
		}
	}
	domains = strings.Fields(dns["search"])
	if own, there := v.Conf["nameserver"]; there {
		servers = strings.Fields(own)
	}
	if own, there := v.Conf["searchdomain"]; there {
		domains = strings.Fields(own)
	}
	return servers, domains
}

// cloudNetwork is the network configuration that Proxmox makes (nocloud_network).
func cloudNetwork(s *world.State, v *world.VM) string {
	var b strings.Builder
	b.WriteString("version: 1\nconfig:\n")
	for i, card := range cloudCards(s, v) {
		ip := card.ip
		fmt.Fprintf(&b, "    - type: physical\n      name: eth%d\n      mac_address: '%s'\n      subnets:\n", i, card.mac)
		b.WriteString(subnet4(ip) + subnet6(ip))
	}
	b.WriteString("    - type: nameserver\n")
	servers, domains := cloudDNS(s, v)
	for _, list := range []struct {
		name string
		of   []string
	}{{"address", servers}, {"search", domains}} {
		if len(list.of) > 0 {
			fmt.Fprintf(&b, "      %s:\n      - '%s'\n", list.name, strings.Join(list.of, "'\n      - '"))
		}
	}
	return b.String()
}

// cloudInterfaces is the network configuration of drives of another form
// (configdrive2_network).
func cloudInterfaces(s *world.State, v *world.VM) string {
	var b strings.Builder
	b.WriteString("auto lo\niface lo inet loopback\n\n")
	servers, domains := cloudDNS(s, v)
	if len(servers) > 0 {
		fmt.Fprintf(&b, "        dns_nameservers %s\n", strings.Join(servers, " "))
	}
	if len(domains) > 0 {
		fmt.Fprintf(&b, "        dns_search %s\n", strings.Join(domains, " "))
	}
	for i, card := range cloudCards(s, v) {
		fmt.Fprintf(&b, "auto eth%d\n", i)
		for _, family := range []struct{ ip, gw, inet string }{{"ip", "gw", "inet"}, {"ip6", "gw6", "inet6"}} {
			switch address := card.ip[family.ip]; address {
			case "":
			case "dhcp", "auto":
				fmt.Fprintf(&b, "iface eth%d %s %s\n", i, family.inet, address)
			default:
				fmt.Fprintf(&b, "iface eth%d %s static\n%s", i, family.inet, interfaceAddress(address, card.ip[family.gw]))
			}
		}
	}
	return b.String()
}

// interfaceAddress is an address as /etc/network/interfaces has it; only that of IPv4 has a mask in numbers.
func interfaceAddress(address, gateway string) string {
	p, err := netip.ParsePrefix(address)
	if err != nil {
		return ""
	}
	mask := strconv.Itoa(p.Bits())
	if p.Addr().Is4() {
		mask = net.IP(net.CIDRMask(p.Bits(), 32)).String()
	}
	out := fmt.Sprintf("        address %s\n        netmask %s\n", p.Addr(), mask)
	if gateway != "" {
		out += fmt.Sprintf("        gateway %s\n", gateway)
	}
	return out
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
