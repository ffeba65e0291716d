package firstboot

import (
	"io/fs"
	"net/netip"
	"slices"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/internal/distro"
)

// cloudMachine is a node as cloud-init creates it. It contains no secret and no data disk:
// data disks come and go while the machine lives, see disksStep.
func cloudMachine(s *spec.Spec, n spec.Node, keys []string) cloudinit.Machine {
	if n.Boot != nil {
		return foreignMachine(s, n, keys)
	}
	m := cloudinit.Machine{
		Hostname: n.Name, User: s.Access.User, AuthorizedKeys: keys,
		MAC: n.MAC.String(), Address: n.Address, Gateway: n.Network.Gateway, Address6: n.Address6, Gateway6: n.Network.Gateway6,
		DNS: n.Network.DNS, Search: n.Network.Search, MTU: n.Network.MTU,
		FreshHostKeys: s.Image.Template != "" && n.OnProxmox(),
		Packages:      firstBootPackages(s, n), Sysctls: s.Guest.Sysctls, KernelModules: s.Guest.KernelModules,
		APTMirror: s.Guest.APTMirror, APTSecurity: APTSecurity(s), APTProxy: s.Guest.APTProxy, HTTPSProxy: s.Guest.HTTPSProxy, Timezone: s.Guest.Timezone,
	}
	m.Cards = cardsOf(n)
	if n.DHCP() { // DHCP also supplies the gateway
		m.Gateway = netip.Addr{}
	}
	if n.Role == spec.FileServer {
		m.Packages = append(slices.Clip(m.Packages), nfsPackage)
	} else {
		m.Files = storageFiles(s)
	}
	for _, f := range s.Guest.Files {
		m.Files = append(m.Files, cloudinit.File{Path: f.Path, Content: []byte(*f.Content), Owner: f.Owner, Mode: fs.FileMode(f.Perm)})
	}
	if n.OnHarvester {
		m.Files = append(m.Files, cloudinit.File{Path: harvester.HostKeyFile, Content: []byte(harvester.HostKeyScript), Mode: 0o755})
	}
	return m
}

// foreignMachine is a machine with an image of its own: of any distribution, with nothing of the settings of other nodes.
func foreignMachine(s *spec.Spec, n spec.Node, keys []string) cloudinit.Machine {
	m := cloudinit.Machine{
		Hostname: n.Name, User: s.Access.User, AuthorizedKeys: keys,
		MAC: n.MAC.String(), Address: n.Address, Gateway: n.Network.Gateway, Address6: n.Address6, Gateway6: n.Network.Gateway6,
		DNS: n.Network.DNS, Search: n.Network.Search, MTU: n.Network.MTU, Cards: cardsOf(n),
	}
	if n.DHCP() {
		m.Gateway = netip.Addr{}
	}
	if !n.Address6.IsValid() { // it need not have one where the nodes do
		m.Gateway6 = netip.Addr{}
	}
	if n.Boot.Agent.IsOn() && n.Boot.System != spec.Windows {
		m.Packages = []string{agentPackage}
	}
	if w := n.Boot.ISO; n.FromDiscs() {
		m.Windows = &cloudinit.WindowsSetup{Edition: w.Edition, Language: w.Language, ProductKey: w.ProductKey, Drivers: w.DriverFolder(), SHA256: w.CloudbaseInit.SHA256}
	}
	return m
}

func cardsOf(n spec.Node) []cloudinit.Card {
	var out []cloudinit.Card
	for _, card := range n.Networks {
		c := cloudinit.Card{Name: card.Name, MAC: card.MAC.String(), Address: card.Address, DHCP: card.DHCP, MTU: card.MTU}
		for _, to := range card.Routes {
			c.Routes = append(c.Routes, cloudinit.Route{To: to.To.String(), Via: to.Via.String()})
		}
		out = append(out, c)
	}
	return out
}

// APTSecurity is the source of security updates if a mirror has the archive.
func APTSecurity(s *spec.Spec) string {
	if s.Guest.APTMirror == "" {
		return ""
	}
	return Distro(s).Security
}

// Distro is the distribution of the machines that this cluster makes.
func Distro(s *spec.Spec) distro.Distro { return distro.ByName(s.Image.Distribution) }
