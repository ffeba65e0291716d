package draft

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// nodeNames lists a pool's nodes.
func nodeNames(p pool) string {
	if p.count() == 1 {
		return p.name + "1"
	}
	return fmt.Sprintf("%s1 to %s%d", p.name, p.name, p.count())
}

// ranges writes addresses, runs of them as from-to.
func ranges(all []netip.Addr) string {
	var out []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j].Next() {
			j++
		}
		text := all[i].String()
		if j > i {
			text += "-" + all[j].String()
		}
		out, i = append(out, text), j+1
	}
	return strings.Join(out, ", ")
}

// floorGiB is a size without a fraction of a GiB.
func floorGiB(s proxmox.Size) proxmox.Size { return s / gib * gib }

// address writes the API's address, which Check has read, in full.
func address(text string) string {
	u, _ := parseEndpoint(text)
	return "https://" + net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "8006"))
}

var plain = regexp.MustCompile(`^[A-Za-z/~][A-Za-z0-9_./@!+-]*(:[A-Za-z0-9_./@!+~-]+)*$`)

// scalar writes a string so that YAML reads the same one.
func scalar(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", "~":
		return strconv.Quote(s)
	}
	if plain.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}
