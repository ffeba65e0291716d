package kubeadm

import (
	"context"
	_ "embed" // the configuration of containerd
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/apt"
	"github.com/cps-gpu/homelab/remote"
)

// Where things are on a machine.
const (
	folder         = "/etc/kubernetes/homelab"
	keyring        = "/usr/share/keyrings/homelab-kubernetes.asc" // armoured; apt reads that by the suffix
	sourceList     = "/etc/apt/sources.list.d/homelab-kubernetes.list"
	containerdFile = "/etc/containerd/config.toml"
	modulesFile    = "/etc/modules-load.d/homelab-kubernetes.conf"
	sysctlFile     = "/etc/sysctl.d/90-homelab-kubernetes.conf"
)

// containerdConfig has systemd's cgroups, as kubelet has by kubeadm's default, and NVIDIA's runtime as a handler, which
// is never the default. containerd 2 reads version 2, too. A runtime is looked for only when a pod asks for it.
//
//go:embed containerd.toml
var containerdConfig []byte

// packages are installed in one version and held, so that no upgrade of the machine changes Kubernetes.
func packages() []string { return []string{"kubelet", "kubeadm", "kubectl"} }

// pin names a package of a release for apt-get.
func pin(name, version string) string { return name + "=" + strings.TrimPrefix(version, "v") + "-*" }

// Install installs a release of Kubernetes and containerd. The runner must be root's. Nothing is started by it but
// containerd: kubelet restarts in vain until the machine is a member, as its package has it.
func Install(ctx context.Context, r remote.Runner, version string) error {
	if !IsVersion(version) {
		return fmt.Errorf("install Kubernetes: %q is not a release: write e.g. %s", version, DefaultVersion)
	}
	converge.Progressf(ctx, "installing Kubernetes %s and containerd", version)
	lists, err := prepare(ctx, r, version)
	if err == nil {
		err = installPackages(ctx, r, version, lists)
	}
	if err != nil {
		return fmt.Errorf("install Kubernetes %s: %w", version, err)
	}
	return nil
}

// prepare makes a machine ready for the packages of a release, and returns what [apt.ReadLists] does.
func prepare(ctx context.Context, r remote.Runner, version string) (lists string, err error) {
	if err := prepareKernel(ctx, r); err != nil {
		return "", err
	}
	if err := addRepository(ctx, r, version); err != nil {
		return "", err
	}
	if err := remote.WriteFile(ctx, r, containerdFile, containerdConfig, 0o644); err != nil { // which the package keeps
		return "", err
	}
	return apt.ReadLists(ctx, r)
}

// installPackages installs and holds all of a release, and restarts containerd.
func installPackages(ctx context.Context, r remote.Runner, version, lists string) error {
	wanted := []string{"containerd", "conntrack"}
	for _, name := range packages() {
		wanted = append(wanted, pin(name, version))
	}
	if err := apt.Install(ctx, r, wanted, lists, "-o", "Dpkg::Options::=--force-confold"); err != nil {
		return err
	}
	if err := remote.Run(ctx, r, append([]string{"apt-mark", "hold"}, packages()...)...); err != nil {
		return err
	}
	return remote.Run(ctx, r, "systemctl", "restart", "containerd")
}

// prepareKernel sets what networks of pods need (preflight/checks_linux.go asks for the second).
func prepareKernel(ctx context.Context, r remote.Runner) error {
	if err := remote.WriteFile(ctx, r, modulesFile, []byte("overlay\nbr_netfilter\n"), 0o644); err != nil {
		return err
	}
	if err := remote.Run(ctx, r, "modprobe", "-a", "overlay", "br_netfilter"); err != nil {
		return err
	}
	settings := "net.ipv4.ip_forward = 1\nnet.ipv6.conf.all.forwarding = 1\nnet.bridge.bridge-nf-call-iptables = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\n"
	if err := remote.WriteFile(ctx, r, sysctlFile, []byte(settings), 0o644); err != nil {
		return err
	}
	return remote.Run(ctx, r, "sysctl", "--system")
}

// addRepository adds the repository of a minor, once its key is the one that is known.
func addRepository(ctx context.Context, r remote.Runner, version string) error {
	url := repository(version)
	key, err := remote.Output(ctx, r, "curl", "--fail", "--silent", "--show-error", "--location", "--proto", "=https", "--retry", "3", url+"Release.key")
	if err != nil {
		return fmt.Errorf("fetch the key of %s: %w", url, err)
	}
	if err := checkKey(key); err != nil {
		return fmt.Errorf("the key of %s is not used: %w", url, err)
	}
	if err := remote.WriteFile(ctx, r, keyring, key, 0o644); err != nil {
		return err
	}
	return remote.WriteFile(ctx, r, sourceList, fmt.Appendf(nil, "deb [signed-by=%s] %s /\n", keyring, url), 0o644)
}
