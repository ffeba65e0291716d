// Package talos completes and checks what a file says of Talos Linux.
package talos

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// What a file without versions gets: the release whose packages read and write the machines' configurations, and the
// Kubernetes that it names first (pkg/machinery/constants, DefaultKubernetesVersion).
const (
	DefaultVersion    = "v1.13.7"
	DefaultKubernetes = "v1.36.2"
)

const (
	noShell   = "a Talos machine has neither a shell nor packages"
	ownImage  = "a Talos machine boots Talos' own image"
	k3sAlone  = "only K3s has it"
	noBuiltIn = "nothing of K3s runs on Talos"
	remove    = "remove it"
)

// Choose reports whether the machines run Talos, and then completes and checks the sections of the whole cluster.
func Choose(c *decode.Checker, s *spec.Spec) bool {
	t, k := &s.Talos, &s.K3s
	if s.Distribution != spec.DistributionTalos {
		if c.IsSet(t) {
			c.Wrong(t, "the machines do not run Talos", "write distribution: talos, or remove talos")
		}
		return false
	}
	t.Version, t.Kubernetes = cmp.Or(t.Version, DefaultVersion), cmp.Or(t.Kubernetes, DefaultKubernetes)
	if !decode.Matches(`^v1\.13\.[0-9]+$`, t.Version) {
		c.Wrong(&t.Version, fmt.Sprintf("%q is not a release of Talos 1.13, whose configurations this homelab writes", t.Version), "write e.g. "+DefaultVersion)
	}
	if !decode.Matches(`^v1\.3[1-6]\.[0-9]+$`, t.Kubernetes) { // pkg/machinery/compatibility/talos113
		c.Wrong(&t.Kubernetes, fmt.Sprintf("%q is not a release of Kubernetes that Talos 1.13 runs: v1.31 to v1.36", t.Kubernetes), "write e.g. "+DefaultKubernetes)
	}
	if len(k.Snapshots.Recipients) == 0 {
		c.Wrong(&k.Snapshots.Recipients, "the secrets of a Talos cluster are in an encrypted file beside this one, and nobody could decrypt it once the API token is gone",
			"write k3s: {snapshots: {recipients: [age1…]}}; age-keygen makes a pair of keys")
	}
	if c.IsSet(&k.FlannelBackend) && k.FlannelBackend != "vxlan" && k.FlannelBackend != "none" {
		c.Wrong(&k.FlannelBackend, "Talos' flannel knows vxlan alone", "remove it, or write cni: cilium")
	}
	if k.SecretsEncryption == spec.Off {
		c.Wrong(&k.SecretsEncryption, "Talos always encrypts Secrets", remove)
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
	k.Version = t.Kubernetes
	k.Disable = []string{"coredns", "servicelb", "traefik", "local-storage", "metrics-server", "runtimes"}
	s.NVIDIA.DriverMode = spec.DriverNone // it is in the image
	return true
}

type refusal struct {
	at      any
	why, do string
}

func clusterRefusals(s *spec.Spec) []refusal {
	k, g, i, n := &s.K3s, &s.Guest, &s.Image, &s.NVIDIA
	return []refusal{
		{&k.Version, "a Talos cluster has no release of K3s", "write talos: {kubernetes: v1.36.2}"},
		{&k.Disable, noBuiltIn, ""}, {&k.ServerConfig, k3sAlone, ""}, {&k.AgentConfig, k3sAlone, ""},
		{&k.EmbeddedRegistry, k3sAlone, ""}, {&s.Mirror, k3sAlone, "write k3s: {registries: {…}} instead"}, {&k.AirgapDir, k3sAlone, ""},
		{&k.VIPInterface, "the VIP is on the card with the node's address, which is found by its MAC", ""},
		{&k.Snapshots.Schedule, "Talos keeps no snapshots on the machines", ""},
		{&k.Snapshots.Retention, "Talos keeps no snapshots on the machines", ""},
		{&k.Snapshots.S3, "Talos keeps no snapshots on the machines", ""},
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

// CheckNode checks a node of Talos, and says what it boots.
func CheckNode(c *decode.Checker, s *spec.Spec, n *spec.Node) {
	if s.Distribution != spec.DistributionTalos {
		return
	}
	sharing := cmp.Or(n.GPUs.Sharing.Strategy, s.NVIDIA.Sharing.Strategy)
	wrong := func(at any, is bool, why, do string) {
		if is {
			c.Wrong(at, n.Name+": "+why, do)
		}
	}
	wrong(&n.SSH, n.External, "homelab installs Talos on VMs of Proxmox only", "remove it, or write a VM")
	wrong(&n.Adopt, n.Adopt, "homelab makes the VM of a Talos machine", remove)
	wrong(&n.Disks, len(n.Disks) > 0, "homelab does not give Talos machines further disks yet", "remove all but os")
	wrong(&n.Network, n.DHCP(), "a Talos machine needs a static address, where its API is found", "write address")
	wrong(&n.GPUs, n.HasGPUs() && sharing == spec.SharingMIG, "nothing on a Talos machine divides GPUs for homelab", "write sharing: time-slicing or mps, or leave it out")
	wrong(&n.Networks, slices.ContainsFunc(n.Networks, func(card spec.Card) bool { return card.DHCP }),
		"Talos would also use the default route of a further card with DHCP", "give the card an address")
	if n.External || n.Adopt {
		return
	}
	n.Boot = &spec.VMBoot{Agent: spec.On}
	if n.HasGPUs() {
		s.Talos.Driver = cmp.Or(s.Talos.Driver, spec.TalosProduction)
	}
}
