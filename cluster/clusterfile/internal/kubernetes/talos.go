package kubernetes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// What a file without versions gets: the release whose packages read and write the machines' configurations, and the
// Kubernetes that it names first (pkg/machinery/constants, DefaultKubernetesVersion).
const (
	talosVersion    = "v1.13.7"
	talosKubernetes = "v1.36.2"
)

const (
	noShell  = "a Talos machine has neither a shell nor packages"
	ownImage = "a Talos machine boots Talos' own image"
	k3sAlone = "only K3s has it"
	remove   = "remove it"
)

func talosRules(s *spec.Spec) rules {
	return rules{
		name: spec.DistributionTalos, section: &s.Talos, choose: chooseTalos, node: checkTalosNode,
		other: map[string]string{"kubernetes": "version", "version": ""},
	}
}

// chooseTalos also checks the sections of the whole cluster.
func chooseTalos(c *decode.Checker, s *spec.Spec) {
	t, k := &s.Talos, &s.K3s
	t.Version, k.Version = cmp.Or(t.Version, talosVersion), cmp.Or(k.Version, talosKubernetes)
	if !decode.Matches(`^v1\.13\.[0-9]+$`, t.Version) {
		c.Wrong(&t.Version, fmt.Sprintf("%q is not a release of Talos 1.13, whose configurations this homelab writes", t.Version), "write e.g. "+talosVersion)
	}
	if !decode.Matches(`^v1\.3[1-6]\.[0-9]+$`, k.Version) { // pkg/machinery/compatibility/talos113
		c.Wrong(&k.Version, fmt.Sprintf("%q is not a release of Kubernetes that Talos 1.13 runs: v1.31 to v1.36", k.Version), "write e.g. "+talosKubernetes)
	}
	move(c, &t.Recipients, &k.Snapshots.Recipients)
	if len(k.Snapshots.Recipients) == 0 {
		c.Wrong(&k.Snapshots.Recipients, "the secrets of a Talos cluster are in an encrypted file beside this one, and nobody could decrypt it once the API token is gone",
			"write talos: {recipients: [age1…]}; age-keygen makes a pair of keys")
	}
	if c.IsSet(&s.Guest.Timezone) && s.Guest.Timezone != "Etc/UTC" {
		c.Wrong(&s.Guest.Timezone, "a Talos machine is in UTC", remove)
	}
	for i := range k.Registries {
		if len(k.Registries[i].Rewrite) > 0 {
			c.Wrong(&k.Registries[i].Rewrite, "Talos' mirrors rewrite no names", "name an endpoint that has the images by their own names")
		}
	}
	for _, r := range clusterRefusals(s) {
		if c.IsSet(r.at) {
			c.Wrong(r.at, r.why, cmp.Or(r.do, remove))
		}
	}
	if s.NVIDIA.Stack == spec.StackDRA {
		c.Wrong(&s.NVIDIA.Stack, "the DRA driver looks for NVIDIA's files where Talos does not have them", "write stack: device-plugin")
	}
	s.Sealed = true
	s.LocalAPI = netip.MustParseAddrPort("127.0.0.1:7445") // KubePrism
	s.NVIDIA.DriverMode = spec.DriverNone                  // it is in the image
}

type refusal struct {
	at      any
	why, do string
}

func clusterRefusals(s *spec.Spec) []refusal {
	g, i, n := &s.Guest, &s.Image, &s.NVIDIA
	return []refusal{
		{&s.Mirror, k3sAlone, "write talos: {registries: {…}} instead"},
		{&g.Packages, noShell, ""}, {&g.Files, noShell, ""}, {&g.APT, noShell, ""},
		{&s.Access.PasswordHash, noShell, ""},
		{&i.URL, ownImage, ""}, {&i.Distribution, ownImage, ""}, {&i.Template, ownImage, ""}, {&i.TemplateStorage, ownImage, ""},
		{&i.SecureBoot, "Talos has another image for that, which homelab does not use yet", ""},
		{&n.DriverMode, "Talos' drivers are in its image", "write talos: {driver: production}, or lts"},
		{&n.Branch, "Talos' drivers are in its image", "write talos: {driver: production}, or lts"},
		{&n.Flavour, "Talos' drivers are in its image, with NVIDIA's open modules", ""},
		{&n.DriverUpgrade, "Talos' drivers are in its image", ""},
	}
}

// checkTalosNode also says what the node boots.
func checkTalosNode(c *decode.Checker, s *spec.Spec, n *spec.Node) {
	sharing := cmp.Or(n.GPUs.Sharing.Strategy, s.NVIDIA.Sharing.Strategy)
	wrong := func(at any, is bool, why, do string) {
		if is {
			c.Wrong(at, n.Name+": "+why, do)
		}
	}
	wrong(&n.SSH, !n.OnProxmox(), "homelab installs Talos on VMs of Proxmox only", "remove it, or write a VM")
	wrong(&n.Adopt, n.Adopt, "homelab makes the VM of a Talos machine", remove)
	wrong(&n.Disks, len(n.Disks) > 0, "homelab does not give Talos machines further disks yet", "remove all but os")
	wrong(&n.Network, n.DHCP(), "a Talos machine needs a static address, where its API is found", "write address")
	wrong(&n.GPUs, n.HasGPUs() && sharing == spec.SharingMIG, "nothing on a Talos machine divides GPUs for homelab", "write sharing: time-slicing or mps, or leave it out")
	wrong(&n.Networks, slices.ContainsFunc(n.Networks, func(card spec.Card) bool { return card.DHCP }),
		"Talos would also use the default route of a further card with DHCP", "give the card an address")
	if !n.OnProxmox() || n.Adopt {
		return
	}
	n.Boot = &spec.VMBoot{Agent: spec.On}
	if n.HasGPUs() {
		s.Talos.Driver = cmp.Or(s.Talos.Driver, spec.TalosProduction)
	}
}
