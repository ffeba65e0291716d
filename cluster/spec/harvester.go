package spec

// Harvester is the Harvester on which the machines are made, instead of Proxmox VE.
type Harvester struct {
	Kubeconfig string `yaml:"kubeconfig" required:"true" doc:"File of its kubeconfig, which the page Support of its web interface makes. It holds all credentials, and no commands."`
	Namespace  string `yaml:"namespace" default:"default" doc:"Namespace of the VMs, their disks and their image. It must exist."`
}

// HasHarvester reports whether the machines that homelab makes are VMs of Harvester.
func (s *Spec) HasHarvester() bool { return s.Harvester.Kubeconfig != "" }

// OnProxmox reports whether the node is a VM of Proxmox VE.
func (n Node) OnProxmox() bool { return !n.External && !n.OnHarvester }
