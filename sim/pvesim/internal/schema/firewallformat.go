package schema

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// FirewallFormats check the values of a rule; each returns the text of what is wrong
// (PVE/Firewall.pm), "" for a valid one. Texts end with a line feed, as Perl's do.
var FirewallFormats = map[string]func(v string) string{
	"pve-fw-addr-spec":        func(v string) string { _, text := AddressList(v); return text },
	"pve-fw-dport-spec":       func(v string) string { return PortList(v, true) },
	"pve-fw-sport-spec":       func(v string) string { return PortList(v, false) },
	"pve-fw-protocol-spec":    ProtocolSpec,
	"pve-fw-icmp-type-spec":   icmpTypeSpec,
	"pve-fw-conntrack-helper": conntrackHelpers,
	"IPorCIDRorAlias":         addressOrAlias,
}

var (
	ipsetRef  = regexp.MustCompile(`^\+\S+$`)
	AliasRef  = regexp.MustCompile(`^(dc/|guest/)?([A-Za-z][A-Za-z0-9_-]+)$`)
	portRange = regexp.MustCompile(`^([0-9]+):([0-9]+)$`)
	digits    = regexp.MustCompile(`^[0-9]+$`)
)

// longestName is how long names of aliases and IP sets may be.
const longestName = 64

// AddressList says which version of IP the addresses of a list are of, 0 where they
// do not tell, and what is wrong with them.
func AddressList(s string) (version int, wrong string) {
	switch {
	case ipsetRef.MatchString(s):
		if len(s) > longestName+1 {
			return 0, "ipset name too long\n"
		}
		return 0, ""
	case AliasRef.MatchString(s):
		if len(s) > longestName {
			return 0, "alias name too long\n"
		}
		return 0, ""
	case s == "":
		return 0, ""
	case strings.HasSuffix(s, ","):
		return 0, "extraneous commas in list\n"
	}
	elements := strings.Split(s, ",")
	ranges := false
	for _, e := range elements {
		v, text := addressElement(e)
		if text != "" {
			return 0, "invalid IP address: " + text + "\n"
		}
		if version != 0 && v != version {
			return 0, "detected mixed ipv4/ipv6 addresses in address list '" + s + "'\n"
		}
		version = v
		ranges = ranges || strings.Contains(e, "-")
	}
	if ranges && len(elements) > 1 {
		return 0, "you can't use a range in a list\n"
	}
	return version, ""
}

// addressElement reads an address, a network or a range, and complains in the words
// of Perl's Net::IP.
func addressElement(e string) (version int, wrong string) {
	if from, to, isRange := strings.Cut(e, "-"); isRange {
		v, text := addressElement(strings.TrimSpace(from))
		if text == "" {
			_, text = addressElement(strings.TrimSpace(to))
		}
		first, err1 := netip.ParseAddr(strings.TrimSpace(from))
		last, err2 := netip.ParseAddr(strings.TrimSpace(to))
		if text == "" && err1 == nil && err2 == nil && last.Less(first) {
			text = fmt.Sprintf("Begin address is greater than End address %s - %s", first, last)
		}
		return v, text
	}
	ip, length, isNet := strings.Cut(e, "/")
	version = 6
	if !strings.Contains(ip, ":") {
		version = 4
		if text := quads(ip); text != "" {
			return 0, text
		}
		for strings.Count(ip, ".") < 3 {
			ip += ".0"
		}
	}
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return 0, "Invalid address " + ip
	}
	if !isNet {
		return version, ""
	}
	n, err := strconv.Atoi(length)
	bits := BitsOf(a)
	switch {
	case err != nil || n < 0:
		return 0, "Invalid prefix length /" + length
	case n > a.BitLen():
		return 0, fmt.Sprintf("Prefix length %d is longer than IP address (%s)", n, bits)
	case strings.Contains(bits[n:], "1"):
		return 0, fmt.Sprintf("Invalid prefix %s/%d", bits, n)
	}
	return version, ""
}

// BitsOf is an address as zeros and ones.
func BitsOf(a netip.Addr) string {
	var b strings.Builder
	for _, octet := range a.AsSlice() {
		fmt.Fprintf(&b, "%08b", octet)
	}
	return b.String()
}

var quadChars = regexp.MustCompile(`^[\d.]+$`)

// quads says what is wrong with an IPv4 address (Net::IP, ip_is_ipv4).
func quads(ip string) string {
	switch {
	case !quadChars.MatchString(ip):
		return "Invalid chars in IP " + ip
	case strings.HasPrefix(ip, "."):
		return "Invalid IP " + ip + " - starts with a dot"
	case strings.HasSuffix(ip, "."):
		return "Invalid IP " + ip + " - ends with a dot"
	case strings.Count(ip, ".") > 3:
		return "Invalid IP address " + ip
	case strings.Contains(ip, ".."):
		return "Empty quad in IP address " + ip
	}
	for quad := range strings.SplitSeq(ip, ".") {
		if n, err := strconv.Atoi(quad); err != nil || n > 255 {
			return "Invalid quad in IP address " + ip + " - " + quad
		}
	}
	return ""
}

// PortList checks ports; types of ICMP may be among those of a destination.
func PortList(s string, destination bool) string {
	facts := FirewallFacts()
	if s == "" {
		return ""
	}
	if strings.HasSuffix(s, ",") {
		return "extraneous commas in list\n"
	}
	count, icmp := 0, false
	for item := range strings.SplitSeq(s, ",") {
		if m := portRange.FindStringSubmatch(item); m != nil {
			count += 2
			for _, port := range m[1:] {
				if Atoi(port) > 65535 {
					return "invalid port '" + port + "'\n"
				}
			}
			if Atoi(m[1]) > Atoi(m[2]) {
				return fmt.Sprintf("backwards range '%s:%s' not allowed, did you mean '%s:%s'?\n", m[1], m[2], m[2], m[1])
			}
			continue
		}
		switch {
		case digits.MatchString(item):
			count++
			if Atoi(item) > 65535 {
				return "invalid port '" + item + "'\n"
			}
		case destination && (facts.ICMPTypes[item] || facts.ICMPv6Types[item]):
			icmp = true
		case !facts.ServiceNames[item]:
			return "invalid port '" + item + "'\n"
		}
	}
	switch {
	case icmp && count > 0:
		return "ICMP ports not allowed in port range\n"
	case count > 15:
		return "too many entries in port list (> 15 numbers)\n"
	}
	return ""
}

// ProtocolSpec says what is wrong with the protocol of a rule.
func ProtocolSpec(v string) string {
	if v != "" && !FirewallFacts().ProtocolNames[v] {
		return "unknown protocol '" + v + "'\n"
	}
	return ""
}

func icmpTypeSpec(v string) string {
	if v != "" && !FirewallFacts().ICMPTypes[v] && !FirewallFacts().ICMPv6Types[v] {
		return "invalid icmp-type value '" + v + "'\n"
	}
	return ""
}

func conntrackHelpers(v string) string {
	if strings.HasSuffix(v, ",") {
		return "extraneous commas in list\n"
	}
	for helper := range strings.SplitSeq(v, ",") {
		switch helper {
		case "", "amanda", "ftp", "irc", "netbios-ns", "pptp", "sane", "sip", "snmp", "tftp":
		default:
			return "unknown helper " + helper + " at /usr/share/perl5/PVE/Firewall.pm line 1167.\n"
		}
	}
	return ""
}

func addressOrAlias(v string) string {
	if AliasRef.MatchString(v) {
		return ""
	}
	ip, length, isNet := strings.Cut(v, "/")
	a, err := netip.ParseAddr(ip)
	if err == nil && isNet && digits.MatchString(length) {
		switch n := Atoi(length); {
		case n > a.BitLen():
			return fmt.Sprintf("Prefix length %d is longer than IP address (%d)\n", n, a.BitLen())
		case n == 0 && !a.IsUnspecified(): // bits behind the prefix are cleared, but not behind none
			return fmt.Sprintf("Invalid prefix %s/0\n", BitsOf(a))
		}
	}
	if Formats["IPorCIDR"].OK(v) {
		return ""
	}
	return "value does not look like a valid IP address or CIDR network\n"
}
