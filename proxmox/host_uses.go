package proxmox

import (
	"context"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Uses lists the disks and network interfaces that a host uses itself (Sys.Audit on /): a disk that
// holds anything, and an interface that is up or configured. The API says of no disk on which device
// it is, and of an interface by its name or another of its names.
func (c *PCIClient) Uses(ctx context.Context, host string) ([]pci.Use, error) {
	disks, err := c.usedDisks(ctx, host)
	if err != nil {
		return nil, err
	}
	interfaces, err := c.usedInterfaces(ctx, host)
	return append(disks, interfaces...), err
}

// usedDisks lists the disks with contents (pve-storage, PVE/Diskmanage.pm, get_disks).
func (c *PCIClient) usedDisks(ctx context.Context, host string) ([]pci.Use, error) {
	type entry struct {
		Path string `json:"devpath"`
		Used string `json:"used"`
		ByID string `json:"by_id_link"`
	}
	all, err := api.GetShared[[]entry](ctx, c.pve, api.NodePath(host, "disks", "list"), url.Values{"skipsmart": {"1"}})
	if err != nil {
		return nil, err
	}
	var out []pci.Use
	for _, d := range all {
		use := pci.Use{What: "the disk " + d.Path + " (" + d.Used + ")", Classes: []string{"0100", "0101", "0104", "0105", "0106", "0107", "0180"}}
		switch {
		case d.Used == "":
			continue
		case strings.HasPrefix(d.Path, "/dev/nvme"):
			use.Classes = []string{"0108", "0104"} // 0104: behind Intel's VMD
		case strings.Contains(d.ByID, "/usb-"):
			use.Classes = []string{"0c03"}
		}
		out = append(out, use)
	}
	return out, nil
}

// usedInterfaces lists the network cards that are up or configured. Ports of bridges that the token may
// not see are up, too.
func (c *PCIClient) usedInterfaces(ctx context.Context, host string) ([]pci.Use, error) {
	type entry struct {
		Name      string    `json:"iface"`
		Type      string    `json:"type"`
		Active    wire.Bool `json:"active"`
		Autostart wire.Bool `json:"autostart"`
		CIDR      string    `json:"cidr"`
		CIDR6     string    `json:"cidr6"`
		AltNames  []string  `json:"altnames"` // since Proxmox VE 9
		Ports     string    `json:"bridge_ports"`
		OVSPorts  string    `json:"ovs_ports"`
		Slaves    string    `json:"slaves"`
		OVSBonds  string    `json:"ovs_bonds"`
	}
	all, err := api.GetShared[[]entry](ctx, c.pve, api.NodePath(host, "network"), nil)
	if err != nil {
		return nil, err
	}
	ports := map[string]bool{}
	for _, e := range all {
		for _, name := range strings.Fields(e.Ports + " " + e.OVSPorts + " " + e.Slaves + " " + e.OVSBonds) {
			ports[name] = true
		}
	}
	var out []pci.Use
	for _, e := range all {
		named := ports[e.Name]
		use := pci.Use{What: "the network interface " + e.Name, Classes: []string{"02"}}
		for _, name := range append([]string{e.Name}, e.AltNames...) {
			named = named || ports[name]
			if at, ok := slotOf(name); ok {
				use.At = &at
			}
		}
		if e.Type == "eth" && (named || bool(e.Active || e.Autostart) || e.CIDR+e.CIDR6 != "") {
			out = append(out, use)
		}
	}
	return out, nil
}

// slotName is an interface's name by its place, in decimal digits: enp3s0f1np1, enP1p5s0, ibp65s0
// (systemd.net-naming-scheme(7)). The name of a virtual function ends with v and a number.
var slotName = regexp.MustCompile(`^(?:en|ib|wl)(?:P([0-9]+))?p([0-9]+)s([0-9]+)(?:f([0-9]+))?(?:n[a-z0-9]*|d[0-9]+)?$`)

// slotOf returns the function that an interface's name stands for.
func slotOf(name string) (PCIAddress, bool) {
	m := slotName.FindStringSubmatch(name)
	if m == nil {
		return PCIAddress{}, false
	}
	var n [4]uint64
	for i := range n {
		n[i], _ = strconv.ParseUint("0"+m[i+1], 10, 16) // digits; nothing is 0
	}
	return PCIAddress{Domain: uint32(n[0]), Bus: uint8(n[1]), Slot: uint8(n[2]), Function: int(n[3])}, n[1] < 256 && n[2] < 32 && n[3] < 8
}
