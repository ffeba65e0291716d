package importer

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// convert makes the YAML of a value, or says why it cannot.
type convert func(v value) (yaml, reason string)

const notAScalar = "it is not one value"

func asText(v value) (string, string) {
	switch {
	case !v.scalar():
		return "", notAScalar
	case strings.ContainsFunc(strings.TrimSpace(v.text), unicode.IsControl):
		return "", "it has more than one line"
	}
	return scalar(strings.TrimSpace(v.text)), ""
}

func asBool(v value) (string, string) {
	switch strings.ToLower(v.text) {
	case "true", "1", "yes", "on":
		return "true", ""
	case "false", "0", "no", "off":
		return "false", ""
	}
	return "", "it is neither true nor false"
}

func asNumber(v value) (string, string) {
	if n, err := strconv.Atoi(strings.TrimSpace(v.text)); v.scalar() && err == nil && n > 0 {
		return strconv.Itoa(n), ""
	}
	return "", "it is not a whole number above 0"
}

func asAddress(v value) (string, string) {
	a, _, ok := addressOf(v)
	if !ok {
		return "", "it is not an IP address"
	}
	return a.String(), ""
}

// addressOf reads an address with or without the length of its network.
func addressOf(v value) (a netip.Addr, p netip.Prefix, ok bool) {
	t := strings.TrimSpace(v.text)
	if p, err := netip.ParsePrefix(t); v.scalar() && err == nil {
		return p.Addr(), p.Masked(), true
	}
	a, err := netip.ParseAddr(t)
	return a, netip.Prefix{}, v.scalar() && err == nil
}

func asPrefix(v value) (string, string) {
	p, err := netip.ParsePrefix(strings.TrimSpace(v.text))
	if !v.scalar() || err != nil {
		return "", "it is not a network such as 10.0.0.0/24"
	}
	return p.Masked().String(), ""
}

func asPrefixes(v value) (string, string) {
	all, ok := v.texts()
	var out []string
	for _, t := range all {
		p, err := netip.ParsePrefix(t)
		if err != nil {
			return "", "it is not a network such as 10.42.0.0/16"
		}
		out = append(out, p.Masked().String())
	}
	switch {
	case !ok || len(out) == 0:
		return "", "it is not a network such as 10.42.0.0/16"
	case len(out) == 1:
		return scalar(out[0]), ""
	}
	return flow(out), ""
}

func asAddresses(v value) (string, string) {
	all, ok := v.texts()
	for _, t := range all {
		if _, err := netip.ParseAddr(t); err != nil {
			ok = false
		}
	}
	if !ok || len(all) == 0 {
		return "", "it is not a list of IP addresses"
	}
	return flow(all), ""
}

func asPools(v value) (string, string) {
	all, ok := v.texts()
	for _, t := range all {
		from, to, isRange := strings.Cut(t, "-")
		_, e1 := netip.ParseAddr(from)
		_, e2 := netip.ParseAddr(to)
		_, e3 := netip.ParsePrefix(t)
		if (isRange && (e1 != nil || e2 != nil)) || !isRange && e3 != nil {
			ok = false
		}
	}
	if !ok || len(all) == 0 {
		return "", "it is not a range such as 10.0.0.200-10.0.0.219"
	}
	return flow(all), ""
}

func asTexts(v value) (string, string) {
	all, ok := v.texts()
	if !ok || len(all) == 0 {
		return "", "it is not a list of words"
	}
	return flow(all), ""
}

var keyLine = regexp.MustCompile(`^(ssh-(rsa|ed25519)|ecdsa-sha2-\S+|sk-\S+) [A-Za-z0-9+/=]+( [^"\n]*)?$`)

// asKeys takes lines of authorized_keys and paths of .pub files.
func asKeys(v value) (string, string) {
	var lines []string
	items := v.items
	if v.kind != list {
		items = []value{v}
	}
	for _, item := range items {
		for line := range strings.Lines(item.text) {
			line = strings.TrimSpace(line)
			switch {
			case line == "" || item.kind != text:
			case keyLine.MatchString(line), strings.HasSuffix(line, ".pub") && !strings.Contains(line, " "):
				lines = append(lines, line)
			default:
				return "", "it is neither a line of authorized_keys nor the path of a .pub file"
			}
		}
	}
	if len(lines) == 0 {
		return "", "it has no public key"
	}
	return flow(lines), ""
}

func asPath(v value) (string, string) {
	if v.kind != text || strings.ContainsAny(v.text, "\n ") || strings.Contains(v.text, "-----BEGIN") {
		return "", "it is not the path of a file"
	}
	return asText(v)
}

func asEndpoint(v value) (string, string) {
	t := strings.TrimSpace(v.text)
	if !strings.Contains(t, "://") {
		t = "https://" + t
	}
	u, err := url.Parse(t)
	if v.kind != text || err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "", "it is not the address of a Proxmox VE host, https://HOST:8006"
	}
	out := "https://" + u.Host
	if u.Port() == "" {
		out += ":8006"
	}
	return scalar(out), ""
}

var tokenID = regexp.MustCompile(`^[^\s@!=:/]+@[A-Za-z][A-Za-z0-9._-]*![A-Za-z][A-Za-z0-9._-]*$`)

func asToken(v value) (string, string) {
	id, _, _ := strings.Cut(strings.TrimSpace(v.text), "=")
	if !tokenID.MatchString(id) {
		return "", "it is not the ID of an API token, USER@REALM!NAME"
	}
	return scalar(id), ""
}

var k3sVersion = regexp.MustCompile(`^v1\.\d+\.\d+\+k3s\d+$`)

func asK3s(v value) (string, string) {
	if !k3sVersion.MatchString(strings.TrimSpace(v.text)) {
		return "", "it is not a release of K3s such as v1.36.5+k3s1"
	}
	return asText(v)
}

var branch = regexp.MustCompile(`^(\d{3})(\.[\d.]+)?(-server)?(-open)?$`)

func asBranch(v value) (string, string) {
	m := branch.FindStringSubmatch(strings.TrimSpace(v.text))
	if m == nil {
		return "", "it is not a branch of NVIDIA's driver such as 580"
	}
	return m[1] + "-server", ""
}

var quantity = regexp.MustCompile(`^(\d+)\s*([kmgt]?)i?b?$`)

// size reads memory or a disk: with a unit, else in that of the name or of the tool. Of memory, numbers below 1024 are GiB.
func size(memory bool) func(name string, v value) (string, string) {
	return func(name string, v value) (string, string) {
		m := quantity.FindStringSubmatch(strings.ToLower(strings.TrimSpace(v.text)))
		if m == nil || !v.scalar() || len(m[1]) > 9 {
			return "", "it is not a size such as 16G"
		}
		n, _ := strconv.Atoi(m[1])
		unit := m[2]
		switch lower := strings.ToLower(name); {
		case unit != "":
		case strings.HasSuffix(lower, "_mb") || strings.HasSuffix(lower, "_mib"):
			unit = "m"
		case strings.HasSuffix(lower, "_gb") || strings.HasSuffix(lower, "_gib") || !memory || n < 1024:
			unit = "g"
		default:
			unit = "m"
		}
		switch {
		case unit == "k":
			return "", "it is in KiB, and sizes are whole MiB"
		case unit == "m" && n%1024 == 0:
			n, unit = n/1024, "g"
		case unit == "m" && !memory:
			n, unit = (n+1023)/1024, "g"
		}
		if n == 0 {
			return "", "it is 0"
		}
		return fmt.Sprintf("%d%siB", n, strings.ToUpper(unit)), ""
	}
}

var bdf = regexp.MustCompile(`^(?:([0-9a-f]{4}):)?([0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?$`)

// cards are PCI addresses without functions, each once: a card's audio function goes with it.
func cards(v value) (out []string, ok bool) {
	all, ok := v.texts()
	for _, t := range all {
		m := bdf.FindStringSubmatch(strings.ToLower(t))
		if m == nil {
			return nil, false
		}
		if m[1] == "" {
			m[1] = "0000"
		}
		if a := m[1] + ":" + m[2]; !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out, ok && len(out) > 0
}

func asCards(v value) (string, string) {
	out, ok := cards(v)
	if !ok {
		return "", "it is not a PCI address such as 0000:01:00"
	}
	return flow(out), ""
}

var macForm = regexp.MustCompile(`^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$`)

func asMAC(v value) (string, string) {
	if !macForm.MatchString(v.text) {
		return "", "it is not an Ethernet address"
	}
	return scalar(strings.ToUpper(v.text)), ""
}

// asLabels takes an object of labels, or a list or text of key=value.
func asLabels(v value) (string, string) {
	var out []string
	for _, f := range v.fields {
		if !f.scalar() {
			return "", "a label's value is not text"
		}
		out = append(out, scalar(f.name)+": "+quote(f.text))
	}
	if v.kind != object {
		all, ok := v.texts()
		for _, t := range all {
			k, l, has := strings.Cut(t, "=")
			ok = ok && has
			out = append(out, scalar(k)+": "+quote(l))
		}
		if !ok {
			return "", "it is not a list of labels"
		}
	}
	return "{" + strings.Join(out, ", ") + "}", ""
}

func asTaints(v value) (string, string) {
	all, ok := v.texts()
	for _, t := range all {
		ok = ok && strings.Contains(t, ":")
	}
	if !ok || len(all) == 0 {
		return "", "it is not a list of taints, key=value:Effect"
	}
	return flow(all), ""
}

var plain = regexp.MustCompile(`^[A-Za-z/~][A-Za-z0-9_./@!+-]*(:[A-Za-z0-9_./@!+~-]+)*$`)

// scalar writes text so that YAML reads the same text.
func scalar(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", "~":
		return quote(s)
	}
	if plain.MatchString(s) {
		return s
	}
	if _, err := strconv.Atoi(s); err == nil && len(s) < 10 && (len(s) == 1 || s[0] != '0') && s[0] != '-' && s[0] != '+' {
		return s
	}
	return quote(s)
}

// quoted writes text in the quotes of YAML. What a line of YAML cannot have is dropped.
func quote(s string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune("\u2028\u2029\ufeff\ufffd", r) {
			return -1
		}
		return r
	}, s)
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(clean) + `"`
}

func flow(items []string) string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = scalar(item)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
