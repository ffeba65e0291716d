package archive

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// Release is a package that can be installed.
type Release struct {
	Name     string
	Versions []string // newest first
	Origin   string   // the archive that has it: "ubuntu" or "libnvidia-container"
	Needs    []string
	Programs []string // files in /usr/bin
	Service  string   // a unit that is started by installing it
	Idle     bool     // …that is not
	Restarts bool     // …that starts again ten seconds after it has ended
}

const (
	ubuntu  = "ubuntu"
	debian  = "debian"
	Toolkit = "libnvidia-container"

	Kubernetes = "pkgs.k8s.io"                                            // whose repositories have one minor each
	CRIO       = "download.opensuse.org/repositories/isv:/cri-o:/stable:" // the same
)

// kubernetesVersions are some of the packages there, of all minors.
func kubernetesVersions() []string {
	return []string{"1.37.2-1.1", "1.36.6-1.1", "1.36.5-1.1", "1.36.3-1.1", "1.35.9-1.1", "1.34.12-1.1"}
}

// crioVersions are some of CRI-O's, whose patches are not those of Kubernetes.
func crioVersions() []string {
	return []string{"1.37.1-1.1", "1.36.6-3.1", "1.35.5-1.1", "1.34.0-1.1"}
}

func toolkitVersions() []string {
	return []string{"1.20.1-1", "1.20.0-1", "1.19.0-1", "1.18.1-1", "1.18.0-1", "1.17.8-1"}
}

// DriverVersion are the branches in Ubuntu's archive, by their name in packages.
func DriverVersion(branch string) string {
	return map[string]string{
		"535-server": "535.274.02-0ubuntu0.24.04.1", "550-server": "550.163.01-0ubuntu0.24.04.1", "570-server": "570.211.01-0ubuntu0.24.04.1",
		"580-server": "580.173.02-0ubuntu0.24.04.1", "580": "580.173.02-0ubuntu0.24.04.1",
		"595-server": "595.71.05-0ubuntu0.24.04.1", "595": "595.71.05-0ubuntu0.24.04.1", "610": "610.57.04-0ubuntu0.24.04.3",
	}[branch]
}

// KernelVersion is the package version of a kernel: 6.8.0-90.91 for 6.8.0-90-generic.
func KernelVersion(kernel string) string {
	abi := strings.TrimSuffix(kernel, "-generic")
	return abi + "." + abi[strings.LastIndexByte(abi, '-')+1:]
}

func plainPackages() map[string]Release {
	return map[string]Release{
		"qemu-guest-agent":              {Versions: []string{"1:8.2.2+ds-0ubuntu1.10"}, Programs: []string{"qemu-ga"}, Service: "qemu-guest-agent"},
		"nfs-common":                    {Versions: []string{"1:2.6.4-3ubuntu5.1"}, Programs: []string{"mount.nfs"}},
		"nfs-kernel-server":             {Versions: []string{"1:2.6.4-3ubuntu5.1"}, Needs: []string{"nfs-common"}, Programs: []string{"rpc.nfsd", "exportfs"}, Service: "nfs-server"},
		"ceph-common":                   {Versions: []string{"19.2.3-0ubuntu0.24.04.3"}, Programs: []string{"ceph", "mount.ceph", "rbd"}},
		"open-iscsi":                    {Versions: []string{"2.1.9-3ubuntu5.4"}, Programs: []string{"iscsiadm", "iscsid"}, Service: "iscsid"},
		"curl":                          {Versions: []string{"8.5.0-2ubuntu10.6"}},
		"wget":                          {Versions: []string{"1.21.4-1ubuntu4.1"}},
		"ca-certificates":               {Versions: []string{"20240203"}},
		"gnupg":                         {Versions: []string{"2.4.4-2ubuntu17.3"}},
		"jq":                            {Versions: []string{"1.7.1-3ubuntu0.24.04.1"}},
		"xfsprogs":                      {Versions: []string{"6.6.0-1ubuntu2.1"}, Programs: []string{"mkfs.xfs", "xfs_growfs", "xfs_info"}},
		"cryptsetup":                    {Versions: []string{"2:2.7.0-1ubuntu4.2"}},
		"dmsetup":                       {Versions: []string{"2:1.02.185-3ubuntu3.2"}},
		"lvm2":                          {Versions: []string{"2.03.16-3ubuntu3.2"}},
		"multipath-tools":               {Versions: []string{"0.9.4-5ubuntu8"}},
		"htop":                          {Versions: []string{"3.3.0-4build1"}},
		"vim":                           {Versions: []string{"2:9.1.0016-1ubuntu7.9"}},
		"git":                           {Versions: []string{"1:2.43.0-1ubuntu7.3"}},
		"pciutils":                      {Versions: []string{"1:3.10.0-2build1"}},
		"chrony":                        {Versions: []string{"4.5-1ubuntu4.2"}, Programs: []string{"chronyd"}, Service: "chrony"},
		"ubuntu-drivers-common":         {Versions: []string{"1:0.9.7.6ubuntu3.4"}, Programs: []string{"ubuntu-drivers"}},
		"apparmor-utils":                {Versions: []string{"4.0.1really4.0.1-0ubuntu0.24.04.4"}},
		"wireguard-tools":               {Versions: []string{"1.0.20210914-1ubuntu4"}},
		"dkms":                          {Versions: []string{"3.0.11-1ubuntu13"}, Programs: []string{"dkms"}},
		"build-essential":               {Versions: []string{"12.10ubuntu1"}, Needs: []string{"gcc", "make"}},
		"gcc":                           {Versions: []string{"4:13.2.0-7ubuntu1"}, Programs: []string{"gcc"}},
		"make":                          {Versions: []string{"4.3-4.1build2"}, Programs: []string{"make"}},
		"ipvsadm":                       {Versions: []string{"1:1.31-1ubuntu0.1"}},
		"ipset":                         {Versions: []string{"7.19-1ubuntu2"}},
		"conntrack":                     {Versions: []string{"1:1.4.8-1ubuntu1"}, Programs: []string{"conntrack"}},
		"socat":                         {Versions: []string{"1.8.0.0-4build3"}},
		"containerd":                    {Versions: []string{"1.7.28-0ubuntu1~24.04.1"}, Needs: []string{"runc"}, Programs: []string{"containerd", "ctr"}, Service: "containerd"},
		"runc":                          {Versions: []string{"1.3.3-0ubuntu1~24.04.2"}, Programs: []string{"runc"}},
		"kubelet":                       {Origin: Kubernetes, Needs: []string{"kubernetes-cni"}, Programs: []string{"kubelet"}, Service: "kubelet", Restarts: true},
		"kubeadm":                       {Origin: Kubernetes, Needs: []string{"cri-tools"}, Programs: []string{"kubeadm"}},
		"cri-o":                         {Origin: CRIO, Programs: []string{"crio", "pinns"}, Service: "crio", Idle: true},
		"kubectl":                       {Origin: Kubernetes, Programs: []string{"kubectl"}},
		"kubernetes-cni":                {Origin: Kubernetes, Versions: []string{"1.8.0-1.1"}},
		"cri-tools":                     {Origin: Kubernetes, Versions: []string{"1.36.0-1.1"}, Programs: []string{"crictl"}},
		"zstd":                          {Versions: []string{"1.5.5+dfsg2-2build1.1"}},
		"python3":                       {Versions: []string{"3.12.3-0ubuntu2"}},
		"linux-generic":                 {Needs: []string{"linux-image-generic", "linux-headers-generic"}},
		"linux-virtual":                 {Needs: []string{"linux-image-virtual"}},
		"linux-image-generic":           {Needs: []string{"linux-image-" + NewestKernel, "linux-modules-extra-" + NewestKernel}},
		"linux-image-virtual":           {Needs: []string{"linux-image-" + NewestKernel}},
		"linux-headers-generic":         {Needs: []string{"linux-headers-" + NewestKernel}},
		"linux-headers-virtual":         {Needs: []string{"linux-headers-" + NewestKernel}},
		"linux-generic-hwe-24.04":       {Needs: []string{"linux-image-" + HWEKernel, "linux-headers-" + HWEKernel}},
		"nvidia-container-toolkit":      {Origin: Toolkit, Needs: []string{"nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"}, Programs: []string{"nvidia-container-runtime-hook"}},
		"nvidia-container-toolkit-base": {Origin: Toolkit, Programs: []string{"nvidia-container-runtime", "nvidia-container-runtime.cdi", "nvidia-ctk", "nvidia-cdi-hook"}},
		"libnvidia-container-tools":     {Origin: Toolkit, Needs: []string{"libnvidia-container1"}, Programs: []string{"nvidia-container-cli"}},
		"libnvidia-container1":          {Origin: Toolkit},
	}
}

var (
	KernelPackage = regexp.MustCompile(`^linux-(image|modules|modules-extra|headers)-(\d[\w.-]*-generic)$`)
	ModulePackage = regexp.MustCompile(`^linux-(?:modules|objects)-nvidia-(\d+(?:-server)?)(-open)?-(generic|generic-hwe-24\.04|generic-6\.8|\d[\d.]*-\d+-generic)$`)
	driverPackage = regexp.MustCompile(`^nvidia-(driver|headless|headless-no-dkms|dkms|kernel-source|utils|compute-utils|kernel-common|firmware|fabricmanager)-(\d+(?:-server)?)(-open)?$`)
	libPackage    = regexp.MustCompile(`^libnvidia-(compute|decode|encode|extra|fbc1|gl|cfg1|common|nscq)-(\d+(?:-server)?)$`)
)

// InUbuntu looks a package up in all archives.
func InUbuntu(name string) (Release, bool) {
	r, ok := plainPackages()[name]
	switch {
	case ok && r.Origin == Toolkit:
		r.Versions = toolkitVersions()
	case ok && r.Origin == CRIO:
		r.Versions = crioVersions()
	case ok && r.Origin == Kubernetes && r.Versions == nil:
		r.Versions = kubernetesVersions()
	case ok && r.Versions == nil:
		r.Versions = []string{strings.Replace(KernelVersion(NewestKernel), "-", ".", 1)}
	case !ok:
		if r, ok = generated(name); !ok {
			return Release{}, false
		}
	}
	if r.Name = name; r.Origin == "" {
		r.Origin = ubuntu
	}
	return r, true
}

func generated(name string) (Release, bool) {
	if m := KernelPackage.FindStringSubmatch(name); m != nil {
		if !slices.Contains([]string{ImageKernel, NewestKernel, laterKernel, HWEKernel}, m[2]) {
			return Release{}, false
		}
		r := Release{Versions: []string{KernelVersion(m[2])}}
		if m[1] == "image" || m[1] == "modules-extra" {
			r.Needs = []string{"linux-modules-" + m[2]}
		}
		return r, true
	}
	if m := ModulePackage.FindStringSubmatch(name); m != nil && DriverVersion(m[1]) != "" {
		return moduleRelease(m[1], m[2], m[3])
	}
	if m := libPackage.FindStringSubmatch(name); m != nil && DriverVersion(m[2]) != "" {
		return Release{Versions: []string{DriverVersion(m[2])}}, true
	}
	if m := driverPackage.FindStringSubmatch(name); m != nil && DriverVersion(m[2]) != "" {
		return driverRelease(m[1], m[2], m[3])
	}
	return Release{}, false
}

// moduleRelease is a package of prebuilt modules. The metapackages follow the
// newest kernel of the archive, not the one that runs.
func moduleRelease(branch, open, kernel string) (Release, bool) {
	stem := "linux-modules-nvidia-" + branch + open + "-"
	switch kernel {
	case "generic", "generic-6.8":
		return Release{Versions: []string{KernelVersion(NewestKernel)}, Needs: []string{stem + NewestKernel}}, true
	case "generic-hwe-24.04":
		return Release{Versions: []string{KernelVersion(HWEKernel)}, Needs: []string{stem + HWEKernel}}, true
	case ImageKernel, NewestKernel, laterKernel, HWEKernel:
		return Release{Versions: []string{KernelVersion(kernel)}, Needs: []string{"linux-image-" + kernel, "nvidia-kernel-common-" + branch}}, true
	}
	return Release{}, false
}

func driverRelease(kind, branch, open string) (Release, bool) {
	r := Release{Versions: []string{DriverVersion(branch)}}
	need := func(stems ...string) {
		for _, s := range stems {
			r.Needs = append(r.Needs, s+branch)
		}
	}
	switch kind {
	case "driver":
		need("nvidia-utils-", "libnvidia-decode-", "libnvidia-encode-", "libnvidia-gl-", "libnvidia-extra-", "libnvidia-fbc1-")
		r.Needs = append(r.Needs, "nvidia-headless-"+branch+open)
	case "headless":
		r.Needs = append(r.Needs, "nvidia-headless-no-dkms-"+branch+open)
		if branch != "" {
			r.Needs = append(r.Needs, "linux-modules-nvidia-"+branch+open+"-generic")
		}
	case "headless-no-dkms":
		need("libnvidia-compute-", "libnvidia-cfg1-", "nvidia-compute-utils-", "nvidia-kernel-common-")
		r.Needs = append(r.Needs, "nvidia-kernel-source-"+branch+open)
	case "dkms":
		need("nvidia-kernel-common-")
		r.Needs = append(r.Needs, "dkms")
		r.Needs = append(r.Needs, "nvidia-kernel-source-"+branch+open)
	case "utils":
		need("libnvidia-compute-")
		r.Programs = []string{"nvidia-smi", "nvidia-debugdump"}
	case "compute-utils":
		need("libnvidia-compute-")
		r.Programs = []string{"nvidia-persistenced"}
	case "fabricmanager":
		r.Programs, r.Service, r.Idle = []string{"nv-fabricmanager"}, "nvidia-fabricmanager", true
	case "kernel-common":
		need("nvidia-firmware-")
	}
	if open != "" && kind != "driver" && kind != "headless" && kind != "headless-no-dkms" && kind != "dkms" && kind != "kernel-source" {
		return Release{}, false
	}
	return r, true
}

// kernels of the simulated archive. The image was made a while ago, as images
// are: linux-generic brings a newer kernel, which runs from the next boot on.
const (
	ImageKernel  = "6.8.0-88-generic"
	NewestKernel = "6.8.0-90-generic"
	HWEKernel    = "7.0.0-31-generic"

	laterKernel = "6.8.0-92-generic" // which no metapackage brings yet
)

// MovedOn is a release some weeks later, when its metapackage brings a newer kernel.
func (r Release) MovedOn() Release {
	if strings.Contains(r.Name, NewestKernel) || strings.Contains(r.Name, newestDebianKernel) {
		return r
	}
	version := func(kernel string) string { return strings.Replace(KernelVersion(kernel), "-", ".", 1) }
	later := strings.NewReplacer(NewestKernel, laterKernel, KernelVersion(NewestKernel), KernelVersion(laterKernel), version(NewestKernel), version(laterKernel),
		newestDebianKernel, laterDebianKernel, "6.12.107-1", "6.12.110-1")
	r.Needs, r.Versions = slices.Clone(r.Needs), slices.Clone(r.Versions)
	for _, list := range [][]string{r.Needs, r.Versions} {
		for i := range list {
			list[i] = later.Replace(list[i])
		}
	}
	return r
}

// Find looks a package up in all archives of a distribution, for a machine with that
// disk: what is installed on it may pin versions.
func Find(distribution, name string, d *disk.Disk) (Release, bool) {
	if distribution != "debian" {
		return InUbuntu(name)
	}
	if r, ok := inDebianOnly(name); ok {
		return r.withPins(d), true
	}
	if r, ok := InUbuntu(name); ok {
		return r.inDebian()
	}
	return Release{}, false
}
