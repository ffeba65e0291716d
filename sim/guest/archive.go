package guest

import (
	"regexp"
	"slices"
	"strings"
)

// release is a package that can be installed.
type release struct {
	name     string
	versions []string // newest first
	origin   string   // the archive that has it: "ubuntu" or "libnvidia-container"
	needs    []string
	programs []string // files in /usr/bin
	service  string   // a unit that is started by installing it
}

const (
	ubuntuArchive  = "ubuntu"
	debianArchive  = "debian"
	toolkitArchive = "libnvidia-container"
)

func toolkitVersions() []string {
	return []string{"1.20.1-1", "1.20.0-1", "1.19.0-1", "1.18.1-1", "1.18.0-1", "1.17.8-1"}
}

// driverVersions are the branches in Ubuntu's archive, by their name in packages.
func driverVersions(branch string) string {
	return map[string]string{
		"535-server": "535.274.02-0ubuntu0.24.04.1", "550-server": "550.163.01-0ubuntu0.24.04.1", "570-server": "570.211.01-0ubuntu0.24.04.1",
		"580-server": "580.173.02-0ubuntu0.24.04.1", "580": "580.173.02-0ubuntu0.24.04.1",
		"595-server": "595.71.05-0ubuntu0.24.04.1", "595": "595.71.05-0ubuntu0.24.04.1", "610": "610.57.04-0ubuntu0.24.04.3",
	}[branch]
}

// kernelVersion is the package version of a kernel: 6.8.0-90.91 for 6.8.0-90-generic.
func kernelVersion(kernel string) string {
	abi := strings.TrimSuffix(kernel, "-generic")
	return abi + "." + abi[strings.LastIndexByte(abi, '-')+1:]
}

func plainPackages() map[string]release {
	return map[string]release{
		"qemu-guest-agent":              {versions: []string{"1:8.2.2+ds-0ubuntu1.10"}, programs: []string{"qemu-ga"}, service: "qemu-guest-agent"},
		"nfs-common":                    {versions: []string{"1:2.6.4-3ubuntu5.1"}, programs: []string{"mount.nfs"}},
		"nfs-kernel-server":             {versions: []string{"1:2.6.4-3ubuntu5.1"}, needs: []string{"nfs-common"}, programs: []string{"rpc.nfsd", "exportfs"}, service: "nfs-server"},
		"open-iscsi":                    {versions: []string{"2.1.9-3ubuntu5.4"}, programs: []string{"iscsiadm", "iscsid"}, service: "iscsid"},
		"curl":                          {versions: []string{"8.5.0-2ubuntu10.6"}},
		"wget":                          {versions: []string{"1.21.4-1ubuntu4.1"}},
		"ca-certificates":               {versions: []string{"20240203"}},
		"gnupg":                         {versions: []string{"2.4.4-2ubuntu17.3"}},
		"jq":                            {versions: []string{"1.7.1-3ubuntu0.24.04.1"}},
		"xfsprogs":                      {versions: []string{"6.6.0-1ubuntu2.1"}, programs: []string{"mkfs.xfs", "xfs_growfs", "xfs_info"}},
		"cryptsetup":                    {versions: []string{"2:2.7.0-1ubuntu4.2"}},
		"dmsetup":                       {versions: []string{"2:1.02.185-3ubuntu3.2"}},
		"lvm2":                          {versions: []string{"2.03.16-3ubuntu3.2"}},
		"multipath-tools":               {versions: []string{"0.9.4-5ubuntu8"}},
		"htop":                          {versions: []string{"3.3.0-4build1"}},
		"vim":                           {versions: []string{"2:9.1.0016-1ubuntu7.9"}},
		"git":                           {versions: []string{"1:2.43.0-1ubuntu7.3"}},
		"pciutils":                      {versions: []string{"1:3.10.0-2build1"}},
		"chrony":                        {versions: []string{"4.5-1ubuntu4.2"}, programs: []string{"chronyd"}, service: "chrony"},
		"ubuntu-drivers-common":         {versions: []string{"1:0.9.7.6ubuntu3.4"}, programs: []string{"ubuntu-drivers"}},
		"apparmor-utils":                {versions: []string{"4.0.1really4.0.1-0ubuntu0.24.04.4"}},
		"wireguard-tools":               {versions: []string{"1.0.20210914-1ubuntu4"}},
		"dkms":                          {versions: []string{"3.0.11-1ubuntu13"}, programs: []string{"dkms"}},
		"build-essential":               {versions: []string{"12.10ubuntu1"}, needs: []string{"gcc", "make"}},
		"gcc":                           {versions: []string{"4:13.2.0-7ubuntu1"}, programs: []string{"gcc"}},
		"make":                          {versions: []string{"4.3-4.1build2"}, programs: []string{"make"}},
		"ipvsadm":                       {versions: []string{"1:1.31-1ubuntu0.1"}},
		"ipset":                         {versions: []string{"7.19-1ubuntu2"}},
		"conntrack":                     {versions: []string{"1:1.4.8-1ubuntu1"}},
		"socat":                         {versions: []string{"1.8.0.0-4build3"}},
		"zstd":                          {versions: []string{"1.5.5+dfsg2-2build1.1"}},
		"python3":                       {versions: []string{"3.12.3-0ubuntu2"}},
		"linux-generic":                 {needs: []string{"linux-image-generic", "linux-headers-generic"}},
		"linux-virtual":                 {needs: []string{"linux-image-virtual"}},
		"linux-image-generic":           {needs: []string{"linux-image-" + newestKernel, "linux-modules-extra-" + newestKernel}},
		"linux-image-virtual":           {needs: []string{"linux-image-" + newestKernel}},
		"linux-headers-generic":         {needs: []string{"linux-headers-" + newestKernel}},
		"linux-headers-virtual":         {needs: []string{"linux-headers-" + newestKernel}},
		"linux-generic-hwe-24.04":       {needs: []string{"linux-image-" + hweKernel, "linux-headers-" + hweKernel}},
		"nvidia-container-toolkit":      {origin: toolkitArchive, needs: []string{"nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"}, programs: []string{"nvidia-container-runtime-hook"}},
		"nvidia-container-toolkit-base": {origin: toolkitArchive, programs: []string{"nvidia-container-runtime", "nvidia-container-runtime.cdi", "nvidia-ctk", "nvidia-cdi-hook"}},
		"libnvidia-container-tools":     {origin: toolkitArchive, needs: []string{"libnvidia-container1"}, programs: []string{"nvidia-container-cli"}},
		"libnvidia-container1":          {origin: toolkitArchive},
	}
}

var (
	kernelPackage = regexp.MustCompile(`^linux-(image|modules|modules-extra|headers)-(\d[\w.-]*-generic)$`)
	modulePackage = regexp.MustCompile(`^linux-(?:modules|objects)-nvidia-(\d+(?:-server)?)(-open)?-(generic|generic-hwe-24\.04|generic-6\.8|\d[\d.]*-\d+-generic)$`)
	driverPackage = regexp.MustCompile(`^nvidia-(driver|headless|headless-no-dkms|dkms|kernel-source|utils|compute-utils|kernel-common|firmware|fabricmanager)-(\d+(?:-server)?)(-open)?$`)
	libPackage    = regexp.MustCompile(`^libnvidia-(compute|decode|encode|extra|fbc1|gl|cfg1|common|nscq)-(\d+(?:-server)?)$`)
)

// findRelease looks a package up in all archives.
func findRelease(name string) (release, bool) {
	r, ok := plainPackages()[name]
	switch {
	case ok && r.origin == toolkitArchive:
		r.versions = toolkitVersions()
	case ok && r.versions == nil:
		r.versions = []string{strings.Replace(kernelVersion(newestKernel), "-", ".", 1)}
	case !ok:
		if r, ok = generated(name); !ok {
			return release{}, false
		}
	}
	if r.name = name; r.origin == "" {
		r.origin = ubuntuArchive
	}
	return r, true
}

func generated(name string) (release, bool) {
	if m := kernelPackage.FindStringSubmatch(name); m != nil {
		if !slices.Contains([]string{imageKernel, newestKernel, hweKernel}, m[2]) {
			return release{}, false
		}
		r := release{versions: []string{kernelVersion(m[2])}}
		if m[1] == "image" || m[1] == "modules-extra" {
			r.needs = []string{"linux-modules-" + m[2]}
		}
		return r, true
	}
	if m := modulePackage.FindStringSubmatch(name); m != nil && driverVersions(m[1]) != "" {
		return moduleRelease(m[1], m[2], m[3])
	}
	if m := libPackage.FindStringSubmatch(name); m != nil && driverVersions(m[2]) != "" {
		return release{versions: []string{driverVersions(m[2])}}, true
	}
	if m := driverPackage.FindStringSubmatch(name); m != nil && driverVersions(m[2]) != "" {
		return driverRelease(m[1], m[2], m[3])
	}
	return release{}, false
}

// moduleRelease is a package of prebuilt modules. The metapackages follow the
// newest kernel of the archive, not the one that runs.
func moduleRelease(branch, open, kernel string) (release, bool) {
	stem := "linux-modules-nvidia-" + branch + open + "-"
	switch kernel {
	case "generic", "generic-6.8":
		return release{versions: []string{kernelVersion(newestKernel)}, needs: []string{stem + newestKernel}}, true
	case "generic-hwe-24.04":
		return release{versions: []string{kernelVersion(hweKernel)}, needs: []string{stem + hweKernel}}, true
	case imageKernel, newestKernel, hweKernel:
		return release{versions: []string{kernelVersion(kernel)}, needs: []string{"linux-image-" + kernel, "nvidia-kernel-common-" + branch}}, true
	}
	return release{}, false
}

func driverRelease(kind, branch, open string) (release, bool) {
	r := release{versions: []string{driverVersions(branch)}}
	need := func(stems ...string) {
		for _, s := range stems {
			r.needs = append(r.needs, s+branch)
		}
	}
	switch kind {
	case "driver":
		need("nvidia-utils-", "libnvidia-decode-", "libnvidia-encode-", "libnvidia-gl-", "libnvidia-extra-", "libnvidia-fbc1-")
		r.needs = append(r.needs, "nvidia-headless-"+branch+open)
	case "headless":
		r.needs = append(r.needs, "nvidia-headless-no-dkms-"+branch+open)
		if branch != "" {
			r.needs = append(r.needs, "linux-modules-nvidia-"+branch+open+"-generic")
		}
	case "headless-no-dkms":
		need("libnvidia-compute-", "libnvidia-cfg1-", "nvidia-compute-utils-", "nvidia-kernel-common-")
		r.needs = append(r.needs, "nvidia-kernel-source-"+branch+open)
	case "dkms":
		need("nvidia-kernel-common-")
		r.needs = append(r.needs, "dkms")
		r.needs = append(r.needs, "nvidia-kernel-source-"+branch+open)
	case "utils":
		need("libnvidia-compute-")
		r.programs = []string{"nvidia-smi", "nvidia-debugdump"}
	case "compute-utils":
		need("libnvidia-compute-")
		r.programs = []string{"nvidia-persistenced"}
	case "kernel-common":
		need("nvidia-firmware-")
	}
	if open != "" && kind != "driver" && kind != "headless" && kind != "headless-no-dkms" && kind != "dkms" && kind != "kernel-source" {
		return release{}, false
	}
	return r, true
}
