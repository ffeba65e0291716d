package cloudinit

import (
	"cmp"
	_ "embed" // packages.sh
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/datadisk"
)

// Machine describes a node's first boot.
type Machine struct {
	Hostname       string
	InstanceID     string   // empty: made from the hostname and a digest of the other documents
	User           string   // the administrator; empty means "ubuntu"
	AuthorizedKeys []string // the administrator's public SSH keys
	PasswordHash   string   // a crypt(3) hash for the console; empty: no password. Never a password.
	FreshHostKeys  bool     // replace the image's SSH host keys, which its clones would share
	MAC            string
	Address        netip.Prefix // the zero Prefix asks DHCP
	Gateway        netip.Addr   // outside of Address's prefix it is reached on-link; the zero Addr sets no default route
	Address6       netip.Prefix // of IPv6 besides that of IPv4; the zero Prefix: none
	Gateway6       netip.Addr   // the zero Addr: routers announce themselves
	DNS            []netip.Addr
	Search         []string // DNS search domains
	MTU            int      // bytes; 0 means the interface's own
	Cards          []Card   // further network cards
	Disks          []Mount
	Packages       []string // missing ones are installed; if none is missing, no mirror is needed
	AgentFirst     bool     // install the guest agent separately and first, because apt installs all requested packages or none
	Sysctls        map[string]string
	KernelModules  []string
	Files          []File
	APTMirror      string // URL instead of the distribution's archive
	APTSecurity    string // URL of its security updates; empty: APTMirror has them too, as Ubuntu's mirrors do
	APTProxy       string // URL of an HTTP proxy for packages from repositories without TLS
	HTTPSProxy     string // URL of an HTTP proxy for repositories with TLS; empty: none
	Timezone       string
	Windows        *WindowsSetup // installs the system that RenderWindows describes; nil: it is there
}

// Mount is a data disk, found by its serial number and mounted, before K3s at each boot. It is
// formatted only if it has no file system.
type Mount struct {
	Serial string // as given to the virtual disk, at most 20 characters
	FS     string // empty means ext4
	Path   string // where to mount it
}

var (
	serials   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,20}$`)
	hostnames = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	users     = regexp.MustCompile(`^[a-z_][-a-z0-9_]{0,31}$`)
)

// RenderServer describes a node of the control plane.
func RenderServer(m Machine) (NoCloud, error) { return m.render(kubernetesSysctls()) }

// RenderWorker describes a node that runs workloads. Unlike a server, it has settings for
// workloads with many memory maps and file watches: notebooks, data loaders, databases.
func RenderWorker(m Machine) (NoCloud, error) {
	sysctls := kubernetesSysctls()
	sysctls["vm.max_map_count"] = "1048576"
	sysctls["fs.inotify.max_user_watches"] = "1048576"
	return m.render(sysctls)
}

// RenderPlain describes a machine that is not a node of a cluster, such as a file server.
func RenderPlain(m Machine) (NoCloud, error) { return m.render(map[string]string{}) }

// RenderForeign describes a machine of any distribution whose image has cloud-init. It has a login, its
// network and its packages, which cloud-init installs as the distribution does, and none of the
// settings of the others.
func RenderForeign(m Machine) (NoCloud, error) {
	if err := m.check(); err != nil {
		return NoCloud{}, fmt.Errorf("machine %q: %w", m.Hostname, err)
	}
	network, err := m.network()
	if err != nil {
		return NoCloud{}, fmt.Errorf("machine %q: %w", m.Hostname, err)
	}
	u := UserData{
		Hostname: m.Hostname, ManageEtcHosts: true, DisableRoot: true, Users: []User{m.user()}, SSHDeleteKeys: true, Timezone: m.Timezone, Packages: m.Packages,
	}
	if slices.Contains(m.Packages, agent) { // which some distributions start only at the next boot
		u.PackageUpdate = true
		u.RunCmd = [][]string{{"systemctl", "start", agent}}
	}
	return identify(NoCloud{UserData: u, Network: network}, m.Hostname, m.InstanceID)
}

// RenderWindows describes a machine whose system is Windows with cloudbase-init, which reads the same ISO by its
// NoCloudConfigDriveService: its name, its network, and an administrator with keys and a random password. cloudbase-init
// knows no packages.
func RenderWindows(m Machine) (NoCloud, error) {
	if err := m.check(); err != nil {
		return NoCloud{}, fmt.Errorf("machine %q: %w", m.Hostname, err)
	}
	network, err := m.network()
	if err != nil {
		return NoCloud{}, fmt.Errorf("machine %q: %w", m.Hostname, err)
	}
	u := UserData{Hostname: m.Hostname, Users: []User{{Name: m.user().Name, Groups: []string{"Administrators"}, SSHAuthorizedKeys: m.AuthorizedKeys}}}
	return identify(NoCloud{UserData: u, Network: network, Windows: m.Windows}, m.Hostname, m.InstanceID)
}

// kubernetesSysctls are settings that the kubelet checks or K3s needs.
func kubernetesSysctls() map[string]string {
	return map[string]string{
		"net.ipv4.ip_forward":                 "1",
		"net.bridge.bridge-nf-call-iptables":  "1",
		"net.bridge.bridge-nf-call-ip6tables": "1",
		"fs.inotify.max_user_instances":       "8192",
		"fs.inotify.max_user_watches":         "524288",
		"vm.overcommit_memory":                "1",  // the kubelet wants these three:
		"kernel.panic":                        "10", // pkg/kubelet/cm, --protect-kernel-defaults
		"kernel.panic_on_oops":                "1",
	}
}

func (m Machine) render(sysctls map[string]string) (NoCloud, error) {
	if err := m.check(); err != nil {
		return NoCloud{}, fmt.Errorf("machine %q: %w", m.Hostname, err)
	}
	network, err := m.network()
	if err != nil {
		return NoCloud{}, fmt.Errorf("machine %q: %w", m.Hostname, err)
	}
	maps.Copy(sysctls, m.Sysctls)
	user, err := m.userData(sysctls)
	if err != nil {
		return NoCloud{}, fmt.Errorf("machine %q: %w", m.Hostname, err)
	}
	return identify(NoCloud{UserData: user, Network: network}, m.Hostname, m.InstanceID)
}

// identify completes n with its meta-data.
func identify(n NoCloud, hostname, id string) (NoCloud, error) {
	n.MetaData = MetaData{InstanceID: id, LocalHostname: hostname}
	if id != "" {
		return n, nil
	}
	n.MetaData.InstanceID = hostname
	digest, err := n.Digest()
	if err != nil {
		return NoCloud{}, err
	}
	n.MetaData.InstanceID = hostname + "-" + digest[:12]
	return n, nil
}

func (m Machine) check() error {
	if !hostnames.MatchString(m.Hostname) {
		return fmt.Errorf("hostname %q: want lower-case letters, digits and dashes, at most 63", m.Hostname)
	}
	if m.User != "" && !users.MatchString(m.User) || m.User == "root" {
		return fmt.Errorf("user %q: want a login name other than root", m.User)
	}
	if len(m.AuthorizedKeys) == 0 && m.PasswordHash == "" {
		return fmt.Errorf("nobody could log in: give at least one public SSH key")
	}
	if m.PasswordHash != "" && !strings.HasPrefix(m.PasswordHash, "$") {
		return fmt.Errorf("the password hash is not valid: make one with openssl passwd -6")
	}
	if m.MTU != 0 && (m.MTU < 1280 || m.MTU > 65535) {
		return fmt.Errorf("MTU %d: want 1280 to 65535", m.MTU)
	}
	return m.checkDisks()
}

func (m Machine) checkDisks() error {
	paths := map[string]bool{}
	for _, d := range m.Disks {
		if !serials.MatchString(d.Serial) {
			return fmt.Errorf("disk serial %q: want at most 20 letters, digits, _ and -", d.Serial)
		}
		if d.Path == "/" || !path.IsAbs(d.Path) || path.Clean(d.Path) != d.Path || strings.ContainsAny(d.Path, " \t\n") {
			return fmt.Errorf("disk %s: mount path %q: want an absolute path below /", d.Serial, d.Path)
		}
		if paths[d.Path] || paths[d.Serial] {
			return fmt.Errorf("disk %s, mounted on %s: another disk has the same serial or path", d.Serial, d.Path)
		}
		paths[d.Path], paths[d.Serial] = true, true
	}
	return nil
}

func (m Machine) userData(sysctls map[string]string) (UserData, error) {
	u := UserData{
		Hostname:       m.Hostname,
		ManageEtcHosts: true,
		DisableRoot:    true,
		Users:          []User{m.user()},
		SSHDeleteKeys:  m.FreshHostKeys,
		SSHKeyTypes:    []string{"ed25519"},
		Timezone:       m.Timezone,
		APT:            apt(m.APTMirror, m.APTSecurity, m.APTProxy, m.HTTPSProxy),
	}
	files := slices.Concat(kernelFiles(m.modules(), sysctls), m.Files)
	for _, f := range files {
		w, err := f.write()
		if err != nil {
			return UserData{}, err
		}
		u.WriteFiles = append(u.WriteFiles, w)
	}
	u.mount(m.Disks) // their own step reports what is wrong with them
	// cloud-init joins all commands into one script, whose status is that of its last command.
	// From here on, a failure ends the script. Packages come first, including the guest agent.
	u.RunCmd = append(u.RunCmd, []string{"set", "-e"})
	rest := m.Packages
	if i := slices.Index(rest, agent); m.AgentFirst && i >= 0 {
		rest = slices.Delete(slices.Clone(rest), i, i+1)
		u.install([]string{agent})
	}
	u.install(rest)
	// systemd has read both files before cloud-init writes them.
	u.RunCmd = append(u.RunCmd, append([]string{"modprobe", "-a"}, m.modules()...), []string{"sysctl", "--quiet", "--system"})
	return u, nil
}

// mount formats and mounts the disks with a script: cloud-init's own fs_setup needs a device's
// name, and no name of a disk is the same on all releases of Proxmox.
func (u *UserData) mount(disks []Mount) {
	if len(disks) == 0 {
		return
	}
	const path = "/usr/local/sbin/data-disks"
	args := []string{path, "make"}
	for _, d := range disks {
		args = append(args, d.Serial, cmp.Or(d.FS, "ext4"), d.Path)
	}
	u.WriteFiles = append(u.WriteFiles, File{Path: path, Content: []byte(datadisk.Script), Mode: 0o755}.encode())
	u.RunCmd = append(u.RunCmd, args)
}

// installScript installs missing packages. cloud-init's own list would need the mirror at
// every first boot, even if the template has all packages.
//
//go:embed packages.sh
var installScript []byte

func (u *UserData) install(packages []string) {
	if len(packages) == 0 {
		return
	}
	const path = "/usr/local/sbin/install-missing-packages"
	if !slices.ContainsFunc(u.WriteFiles, func(f WriteFile) bool { return f.Path == path }) {
		u.WriteFiles = append(u.WriteFiles, File{Path: path, Content: installScript, Mode: 0o755}.encode())
	}
	u.RunCmd = append(u.RunCmd, append([]string{path}, packages...))
}

func (m Machine) user() User {
	return User{
		Name:              cmp.Or(m.User, "ubuntu"),
		Shell:             "/bin/bash",
		Groups:            []string{"adm", "sudo"},
		Sudo:              "ALL=(ALL) NOPASSWD:ALL",
		LockPassword:      m.PasswordHash == "",
		HashedPassword:    m.PasswordHash,
		SSHAuthorizedKeys: m.AuthorizedKeys,
	}
}

// modules returns the modules of every Kubernetes node, then the machine's own.
func (m Machine) modules() []string {
	all := []string{"overlay", "br_netfilter"}
	for _, name := range m.KernelModules {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func kernelFiles(modules []string, sysctls map[string]string) []File {
	var s strings.Builder
	for _, key := range slices.Sorted(maps.Keys(sysctls)) {
		fmt.Fprintf(&s, "%s = %s\n", key, sysctls[key])
	}
	return []File{
		{Path: "/etc/modules-load.d/kubernetes.conf", Content: []byte(strings.Join(modules, "\n") + "\n")},
		{Path: "/etc/sysctl.d/90-kubernetes.conf", Content: []byte(s.String())},
	}
}

// apt configures the sources of packages. Without a proxy for https, apt uses the one for http
// (apt-transport-https(1)), and a package cache refuses https requests.
func apt(mirror, security, proxy, secure string) *APT {
	if mirror == "" && proxy == "" && secure == "" {
		return nil
	}
	if proxy != "" && secure == "" {
		secure = "DIRECT"
	}
	a := &APT{HTTPProxy: proxy, HTTPSProxy: secure}
	if mirror != "" {
		a.Primary = []Mirror{{Arches: []string{"default"}, URI: mirror}}
		a.Security = []Mirror{{Arches: []string{"default"}, URI: cmp.Or(security, mirror)}}
	}
	return a
}
