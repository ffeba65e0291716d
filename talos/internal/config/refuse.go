package config

import (
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Refuse says which settings of the file a Talos machine cannot have, all at once. What it lets pass,
// Machine and package seed carry out.
func Refuse(s *spec.Spec, n spec.Node) error {
	var errs []error
	for _, r := range append(ofCluster(s), ofNode(s, n)...) {
		if r.set {
			errs = append(errs, fmt.Errorf("%s: %s", r.key, r.why))
		}
	}
	return errors.Join(errs...)
}

type refusal struct {
	set      bool
	key, why string
}

const (
	noShell   = "a Talos machine has neither a shell nor packages: remove it"
	ownImage  = "a Talos machine boots Talos' own image: remove it"
	k3sAlone  = "only K3s has it: remove it"
	whereFrom = "Talos keeps no snapshots on the machines: remove it, and run cluster:backup by a schedule"
)

func ofCluster(s *spec.Spec) []refusal {
	k := s.K3s
	out := []refusal{
		{len(s.Guest.Packages) > 0, "guest.packages", noShell},
		{len(s.Guest.Files) > 0, "guest.files", noShell},
		{s.Guest.Timezone != "" && s.Guest.Timezone != "Etc/UTC", "guest.timezone", "a Talos machine is in UTC: remove it"},
		{s.Guest.APT != (spec.APT{}), "guest.apt", noShell},
		{!s.Access.PasswordHash.IsZero(), "ssh.passwordHash", noShell},
		{s.Image.Template != "", "image.template", ownImage},
		{s.Image.SecureBoot, "image.secureBoot", "Talos has another image for that, which homelab does not use yet: remove it"},
		{k.FlannelBackend != "" && k.FlannelBackend != "vxlan" && k.FlannelBackend != "none", "k3s.flannelBackend", "Talos' flannel knows vxlan alone: remove it, or write cni: cilium"},
		{len(k.ServerConfig)+len(k.AgentConfig) > 0, "k3s.server, k3s.agent", k3sAlone},
		{k.EmbeddedRegistry, "k3s.embeddedRegistry", k3sAlone},
		{k.AirgapDir != "", "k3s.airgap", k3sAlone},
		{k.VIPInterface != "", "k3s.vipInterface", "the VIP is on the card with the node's address, which is found by its MAC: remove it"},
		{k.SecretsEncryption == spec.Off, "k3s.secretsEncryption", "Talos always encrypts Secrets: remove it"},
		{k.Snapshots.S3 != nil, "k3s.snapshots.s3", whereFrom},
		{s.NVIDIA.DriverMode == spec.DriverDKMS || s.NVIDIA.DriverMode == spec.DriverOperator, "nvidia.driver.mode", "Talos' drivers are in its image: remove it"},
	}
	for _, r := range k.Registries {
		out = append(out, refusal{len(r.Rewrite) > 0, "k3s.registries." + r.Name + ".rewrite", "Talos' mirrors rewrite no names: name an endpoint that has the images by their own"})
	}
	return out
}

func ofNode(s *spec.Spec, n spec.Node) []refusal {
	at := "nodes." + n.Name + "."
	sharing := n.GPUs.Sharing.Strategy
	if sharing == "" {
		sharing = s.NVIDIA.Sharing.Strategy
	}
	return []refusal{
		{n.External, at + "external", "homelab installs Talos on VMs of Proxmox only"},
		{n.Adopt, at + "adopt", "the VM of a Talos machine is made by homelab: remove it"},
		{len(n.Disks) > 0, at + "disks", "homelab does not give Talos machines further disks yet: remove them"},
		{n.HasGPUs() && sharing == spec.SharingMIG, at + "gpus.sharing", "nothing on a Talos machine divides GPUs for homelab: use time-slicing or mps"},
	}
}
