package schema

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// format is a validator that Proxmox has registered under a name.
type format struct {
	OK   func(s string) bool
	text string // after "value does not look like a valid "
}

func matching(pattern string) func(string) bool {
	return regexp.MustCompile("^(?:" + pattern + ")$").MatchString
}

// Formats are checks of values by name. Names and texts are those of PVE/JSONSchema.pm and its kin. A format that is
// not here accepts everything.
var Formats = map[string]format{
	"pve-vmid":     {matching(`[1-9][0-9]{2,8}`), "VM ID"},
	"pve-node":     {matching(`[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?`), "node name"},
	"pve-configid": {matching(`[a-zA-Z][\w-]+`), "configuration ID"},
	"dns-name":     {matching(`([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?`), "DNS name"},
	"mac-addr":     {isUnicastMAC, "unicast MAC address"},
	"pve-storage-id": {matching(`[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]`),
		"storage ID"},
	"pve-bridge-id":                       {matching(`[-_.\w]+`), "bridge ID"},
	"disk-size":                           {matching(`\d+(\.\d+)?([KMGT](iB)?)?`), "disk size"},
	"urlencoded":                          {matching(`[-%a-zA-Z0-9_.!~*'()]*`), "urlencoded string"},
	"ipv4":                                {isAddr(netip.Addr.Is4), "IPv4 address"},
	"ipv6":                                {isAddr(netip.Addr.Is6), "IPv6 address"},
	"ip":                                  {isAddr(netip.Addr.IsValid), "IP address"},
	"pve-tag":                             {matching(`(?i)[a-z0-9_][a-z0-9_\-+.]*`), "tag"},
	"pve-poolid":                          {matching(`[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,2}`), "pool name"},
	"pve-userid":                          {matching(`[^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+`), "user name"},
	"pve-groupid":                         {matching(`[A-Za-z0-9.\-_]+`), "group name"},
	"pve-roleid":                          {matching(`[A-Za-z0-9.\-_]+`), "role name"},
	"pve-realm":                           {matching(`[A-Za-z][A-Za-z0-9.\-_]+`), "realm"},
	"CIDR":                                {isPrefix(netip.Prefix.IsValid), "CIDR network"},
	"CIDRv4":                              {isPrefix(func(p netip.Prefix) bool { return p.Addr().Is4() }), "IPv4 CIDR network"},
	"CIDRv6":                              {isPrefix(func(p netip.Prefix) bool { return p.Addr().Is6() }), "IPv6 CIDR network"},
	"IPorCIDR":                            {func(s string) bool { return isAddr(netip.Addr.IsValid)(s) || isPrefix(netip.Prefix.IsValid)(s) }, "IP address or CIDR network"},
	"ipv4mask":                            {isMask, "IP netmask"},
	"email-opt":                           {matching(`(\w+@[\w.-]+|[^\s@]+@[^\s@]+)?`), "email address"},
	"address":                             {matching(`[a-zA-Z0-9:]([a-zA-Z0-9:.-]*[a-zA-Z0-9:])?`), "address"},
	"mac-prefix":                          {matching(`(?i)[a-f0-9][02468ace](:[a-f0-9]{2}){0,2}:?`), "unicast MAC address prefix"},
	"pve-iface":                           {matching(`(?i)[a-z][a-z0-9_]{1,20}([:.]\d+)?`), "network interface name"},
	"pve-tokenid":                         {matching(`[^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+![A-Za-z][A-Za-z0-9.\-_]+`), "token ID"},
	"pve-storage-content":                 {matching(`images|rootdir|vztmpl|iso|backup|snippets|import|none`), "content type"},
	"pve-task-status-type":                {matching(`(?i)ok|error|warning|unknown`), "task status"},
	"pve-vlan-id-or-range":                {matching(`\d{1,4}(-\d{1,4})?`), "VLAN ID or range"},
	"pve-hotplug-features":                {func(s string) bool { return badFeature(s) == "" }, ""},
	"pve-qm-bootdisk":                     {matching(`(ide|sata|scsi|virtio|efidisk|tpmstate)\d+`), "boot disk"},
	"pve-cpuset":                          {isCPUSet, ""},
	"pve-startup-order":                   {matching(`\s*((order=)?\d+|up=\d+|down=\d+)?(,\s*((order=)?\d+|up=\d+|down=\d+)?)*`), ""},
	"pve-ha-node":                         {matching(`[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(:\d+)?`), "node name"},
	"pve-ha-resource-id":                  {matching(`[a-z]+:\S+`), "ha resource id"},
	"pve-ha-resource-or-vm-id":            {matching(`[a-z]+:\S+|\d+`), "ha resource id"},
	"storage-pair":                        {matching(`[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9](:[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9])?|1`), "storage map"},
	"pve-storage-path":                    {matching(`/[-/a-zA-Z0-9_.@]*`), "absolute path"},
	"pve-storage-vgname":                  {matching(`[a-zA-Z0-9][a-zA-Z0-9\-_.]*[a-zA-Z0-9]`), ""},
	"pve-dir-override":                    {matching(`(images|rootdir|vztmpl|iso|backup|snippets|import|none)=[^.]*(\.?[^.]+)+`), ""},
	"pve-storage-server":                  {matching(`[a-zA-Z0-9:]([a-zA-Z0-9:.-]*[a-zA-Z0-9:])?`), "server name or IP address"},
	"pve-storage-portal-dns":              {matching(`[\w.:\[\]-]+`), "portal address"},
	"pve-storage-options":                 {matching(`[^\s,=]+(=[^,]*)?(,[^\s,=]+(=[^,]*)?)*`), "options"},
	"pve-storage-zfs-blocksize":           {matching(`\d+[kKmMgG]?`), "block size"},
	"pve-phys-bits":                       {matching(`host|[89]|[1-5][0-9]|6[0-4]`), ""},
	"pve-sdn-fabric-id":                   {matching(`[a-zA-Z0-9][a-zA-Z0-9-]{0,6}[a-zA-Z0-9]?`), "fabric ID"},
	"pve-sdn-isis-net":                    {matching(`[a-fA-F0-9]{2}(\.[a-fA-F0-9]{4}){3,9}\.[a-fA-F0-9]{2}`), "isis net"},
	"pve-replication-job-id":              {matching(`[1-9]\d{2,}-\d+`), ""},
	"string":                              {func(string) bool { return true }, "string"},
	"pve-qm-bootdev":                      {matching(`ide[0-3]|sata[0-5]|scsi([0-9]|[12][0-9]|30)|virtio([0-9]|1[0-5])|net([0-9]|[12][0-9]|3[01])|usb([0-9]|1[0-3])|hostpci([0-9]|1[0-5])`), "boot device"},
	"pve-volume-id-or-qm-path":            {matching(`(?i)none|cdrom|/.+|[a-z][a-z0-9\-_.]*[a-z0-9]:.+`), "volume ID"},
	"pve-volume-id-or-absolute-path":      {matching(`(?i)/.+|[a-z][a-z0-9\-_.]*[a-z0-9]:.+`), "volume ID"},
	"pve-storage-path-in-property-string": {matching(`/[^;,=()]+.*`), ""},
	"pve-volume-id":                       {matching(`(?i)[a-z][a-z0-9\-_.]*[a-z0-9]:.+`), "volume ID"},
	"pve-ipv4-config": {func(s string) bool {
		p, err := netip.ParsePrefix(s)
		return s == "dhcp" || s == "manual" || err == nil && p.Addr().Is4() && p.Bits() > 7
	}, "ipv4 network configuration"},
	"pve-ipv6-config": {func(s string) bool {
		p, err := netip.ParsePrefix(s)
		return s == "dhcp" || s == "auto" || s == "manual" || err == nil && p.Addr().Is6() && p.Bits() > 7
	}, "ipv6 network configuration"},
}

// isMask takes masks of IPv4 in numbers (PVE/JSONSchema.pm, pve_verify_ipv4mask).
func isMask(s string) bool {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		return false
	}
	_, bits := net.IPMask(a.AsSlice()).Size()
	return bits == 32
}

// formatErrors are the texts that do not follow the pattern.
var formatErrors = map[string]string{
	"pve-storage-id":      "storage ID '%' contains illegal characters",
	"pve-bridge-id":       "invalid bridge ID '%'",
	"pve-configid":        "invalid configuration ID '%'",
	"pve-tag":             "invalid characters in tag",
	"pve-userid":          "value '%' does not look like a valid user name",
	"pve-groupid":         "group name '%' contains invalid characters",
	"pve-tokenid":         "value '%' does not look like a valid token ID",
	"pve-roleid":          "role name '%' contains invalid characters",
	"pve-storage-content": "invalid content type '%'",
	"pve-iface":           "invalid network interface name '%'",
	"pve-startup-order":   "unable to parse startup options",
	"address":             "value does not look like a valid address: %",
	"pve-realm":           "value does not look like a valid realm",
	"urlencoded":          "invalid urlencoded string: %",
	"pve-cpuset":          "unable to parse cpuset option",
	"pve-qm-bootdev":      "invalid boot device '%'",
	"pve-qm-bootdisk":     "invalid boot disk '%'",
	"pve-sdn-fabric-id":   "Fabric ID '%' contains illegal characters",
	"pve-phys-bits":       "value must be an integer between 8 and 64 or 'host'",

	"pve-volume-id-or-qm-path":       "unable to parse volume ID '%'",
	"pve-volume-id-or-absolute-path": "unable to parse volume ID '%'",
	"pve-volume-id":                  "unable to parse volume ID '%'",
	"disk-size":                      "value does not look like a valid disk size: %",
	"pve-poolid":                     "pool name '%' contains invalid characters",
	"pve-storage-vgname":             "lvm name '%' contains illegal characters",
	"pve-replication-job-id":         "invalid replication job id '%'",
	"pve-dir-override":               "invalid override '%'",
	"pve-task-status-type":           "invalid status '%'",
	"mac-prefix":                     "value is not a valid unicast MAC address prefix",

	"pve-storage-path-in-property-string": "Value does not look like a valid absolute path. These symbols are currently not allowed in path: ;,=()\n",
}

func isAddr(is func(netip.Addr) bool) func(string) bool {
	return func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err == nil && is(a)
	}
}

func isPrefix(is func(netip.Prefix) bool) func(string) bool {
	return func(s string) bool {
		p, err := netip.ParsePrefix(s)
		return err == nil && is(p)
	}
}

var macPattern = regexp.MustCompile(`(?i)^[a-f0-9][02468ace](:[a-f0-9]{2}){5}$`)

func isUnicastMAC(s string) bool { return macPattern.MatchString(s) }

// CheckFormat says what is wrong with v, as it follows "invalid format - ".
func CheckFormat(path string, f propertyFormat, v string) string {
	if f.Keys != nil {
		return CheckProps(path, f.Name, f.Keys, v)
	}
	if name, isList := strings.CutSuffix(f.Name, "-list"); isList {
		for _, item := range SplitList(v) {
			if text := checkNamed(name, item); text != "" {
				return text
			}
		}
		return ""
	}
	return checkNamed(f.Name, v)
}

func checkNamed(name, v string) string {
	if name == "pem-certificate-chain" && !strings.Contains(v, "-----BEGIN CERTIFICATE-----") || name == "pem-string" && !strings.Contains(v, "-----BEGIN ") {
		return "not a valid PEM-formatted string.\n"
	}
	if wrong := FirewallFormats[name]; wrong != nil {
		return wrong(v)
	}
	f, known := Formats[name]
	if !known || f.OK(v) {
		return ""
	}
	switch {
	case name == "pve-hotplug-features":
		return "invalid hotplug feature '" + badFeature(v) + "'\n"
	case name == "pve-poolid" && strings.Count(strings.TrimRight(v, "/"), "/") > 2:
		return "pool name '" + v + "' nested too deeply (max levels = 3)\n"
	case name == "pve-storage-id" && len(v) < 2:
		return "storage ID '" + v + "' cannot be shorter than 2 characters\n"
	}
	if text, ok := formatErrors[name]; ok {
		return strings.ReplaceAll(text, "%", v) + "\n"
	}
	return "value does not look like a valid " + f.text + "\n"
}

// badFeature is the first of a list that cannot be hotplugged.
func badFeature(list string) string {
	if list == "0" || list == "1" {
		return ""
	}
	for _, f := range SplitList(list) {
		if !slices.Contains([]string{"network", "disk", "cpu", "memory", "usb", "cloudinit"}, f) {
			return f
		}
	}
	return ""
}

// isCPUSet is parse_cpuset of PVE/CpuSet.pm.
func isCPUSet(s string) bool {
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if Atoi(first) < 0 || isRange && Atoi(last) < Atoi(first) {
			return false
		}
	}
	return true
}

// SplitList takes a list apart the way Proxmox does: at commas, semicolons and blanks.
func SplitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool {
		return r == ',' || r == ';' || r == ' ' || r == '\t' || r == '\n' || r == 0
	})
}
