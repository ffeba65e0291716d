package kubernetes

import (
	"cmp"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kubeadm"
)

func kubeadmRules(s *spec.Spec) rules {
	return rules{name: spec.DistributionKubeadm, section: &s.Kubeadm, choose: chooseKubeadm, check: checkKubeadm}
}

func chooseKubeadm(c *decode.Checker, s *spec.Spec) {
	k := &s.K3s
	k.Version, k.CNI, k.FlannelBackend = cmp.Or(k.Version, kubeadm.DefaultVersion), cmp.Or(k.CNI, "cilium"), "none"
	switch {
	case !kubeadm.IsVersion(k.Version):
		c.Wrong(&k.Version, fmt.Sprintf("%q is not a release of Kubernetes", k.Version), "write an exact release, e.g. "+kubeadm.DefaultVersion)
	case kubeadm.CompareVersions(k.Version, oldest) < 0:
		c.Wrong(&k.Version, fmt.Sprintf("this kubeadm (%s) does not read the configuration that homelab writes, or gets no fixes", k.Version), "write "+oldest+" or newer, e.g. "+kubeadm.DefaultVersion)
	case kubeadm.CompareVersions(k.Version, kubeadm.DefaultVersion) > 0:
		c.Warn(&k.Version, fmt.Sprintf("Kubernetes %s is newer than %s, the newest that this build knows", k.Version, kubeadm.DefaultVersion), "see that it exists: https://kubernetes.io/releases")
	}
	if !k.Cilium() {
		c.Wrong(&k.CNI, "kubeadm brings no network for pods, and homelab installs Cilium alone: flannel is K3s' own", "remove cni, or write cni: cilium")
	}
}

// oldest is the oldest release that still gets fixes, as of November 2026. All read v1beta4.
const oldest = "v1.34.0"

// checkKubeadm refuses what kubeadm cannot do here.
func checkKubeadm(c *decode.Checker, s *spec.Spec) {
	no := func(is bool, at any, what, cure string) {
		if is {
			c.Wrong(at, "distribution: kubeadm cannot do this yet: "+what, cure)
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		no(n.External && s.Kubeadm.Runtime == string(kubeadm.CRIO), &s.Distribution, "the machine of "+n.Name+" exists, and CRI-O is not taken off one again", "remove runtime, or give the node a VM")
		no(n.DHCP() && n.Role == spec.Server, &s.Distribution, "the server "+n.Name+" has its address from a DHCP server", "give it an address")
		no(n.Role == spec.Server && n.Cores == 1, &s.Distribution, n.Name+" has one core, and kubeadm refuses a server with fewer than two", "write cores: 2")
	}
	no(s.Mirror != nil, s.Mirror, "its files and images come from a mirror", "remove mirror, or write distribution: k3s")
	for _, p := range s.K3s.PodCIDR {
		no(p.Addr().Is6(), &s.K3s.PodCIDR, "pods have addresses of IPv6, for which homelab does not set up Cilium", "write addresses of IPv4 alone")
	}
	no(s.NVIDIA.Stack != spec.StackDevicePlugin && s.NVIDIA.Stack != spec.StackNone, &s.NVIDIA.Stack, "NVIDIA's operator and DRA driver were not tried with it", "write stack: device-plugin")
	no(s.Platform.LoginArgs() != nil, &s.Distribution, "the API server does not get the login's settings", "remove the groups' roles in login")
	no(s.LabGuests.QEMU(), &s.LabGuests.Guests, "real guests of the lab have files of K3s at hand", "write guests: simulated")
	no(s.LabGuests.Kubernetes(), &s.LabGuests.ControlPlane, "the lab's real control plane is started by K3s", "write kubernetes: simulated")
}
