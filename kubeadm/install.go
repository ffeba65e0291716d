package kubeadm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/apt"
	"github.com/cps-gpu/homelab/remote"
)

// Where things are on a machine.
const (
	folder      = "/etc/kubernetes/homelab"
	modulesFile = "/etc/modules-load.d/homelab-kubernetes.conf"
	sysctlFile  = "/etc/sysctl.d/90-homelab-kubernetes.conf"
)

// Release is what a machine gets.
type Release struct {
	Version string  // of Kubernetes, e.g. v1.36.5
	Runtime Runtime // "": containerd
	Key     string  // fingerprint of the key of CRI-O's repository; "": that of its own
}

// pins are the packages that are installed in one version and held, so that no upgrade of the machine changes
// Kubernetes, as patterns for apt-get. CRI-O's patches are not those of Kubernetes, its minors are.
func (r Release) pins() []string {
	out := []string{}
	for _, name := range r.Runtime.heldPackages() {
		version := strings.TrimPrefix(r.Version, "v") + "-*"
		if name == "cri-o" {
			minor, _ := parts(r.Version)
			version = fmt.Sprintf("1.%d.*", minor)
		}
		out = append(out, name+"="+version)
	}
	return out
}

// heldPackages are the packages of a machine with a runtime that no upgrade of it changes, kubeadm first.
func (r Runtime) heldPackages() []string {
	all := []string{"kubeadm", "kubelet", "kubectl"}
	if r == CRIO {
		all = append(all, "cri-o")
	}
	return all
}

// Install installs a release of Kubernetes and what runs its containers. The runner must be root's. Nothing is started by
// it but the runtime: kubelet restarts in vain until the machine is a member, as its package has it.
func Install(ctx context.Context, r remote.Runner, of Release) error {
	if !IsVersion(of.Version) {
		return fmt.Errorf("install Kubernetes: %q is not a release: write e.g. %s", of.Version, DefaultVersion)
	}
	converge.Progressf(ctx, "installing Kubernetes %s and %s", of.Version, of.Runtime.service())
	lists, err := of.prepare(ctx, r)
	if err == nil {
		err = of.install(ctx, r, lists)
	}
	if err != nil {
		return fmt.Errorf("install Kubernetes %s: %w", of.Version, err)
	}
	return nil
}

// prepare makes a machine ready for the packages, and returns what [apt.ReadLists] does.
func (r Release) prepare(ctx context.Context, on remote.Runner) (lists string, err error) {
	if err := prepareKernel(ctx, on); err != nil {
		return "", err
	}
	if err := addRepository(ctx, on, repository{"kubernetes", repositoryURL(r.Version), keyFingerprint}); err != nil {
		return "", err
	}
	if err := r.prepareRuntime(ctx, on); err != nil {
		return "", err
	}
	return apt.ReadLists(ctx, on)
}

// install installs and holds all packages, and restarts the runtime.
func (r Release) install(ctx context.Context, on remote.Runner, lists string) error {
	wanted := slices.Concat(r.Runtime.needs(), []string{"conntrack"}, r.pins())
	if err := apt.Install(ctx, on, wanted, lists, "-o", "Dpkg::Options::=--force-confold"); err != nil {
		return err
	}
	for _, do := range [][]string{
		append([]string{"apt-mark", "hold"}, r.Runtime.heldPackages()...), {"systemctl", "enable", r.Runtime.service()}, {"systemctl", "restart", r.Runtime.service()},
	} {
		if err := remote.Run(ctx, on, do...); err != nil {
			return err
		}
	}
	return nil
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

// repository is one of apt's, for one minor.
type repository struct{ name, url, key string }

// addRepository adds a repository, once its key is the one that is known.
func addRepository(ctx context.Context, r remote.Runner, of repository) error {
	key, err := remote.Output(ctx, r, "curl", "--fail", "--silent", "--show-error", "--location", "--proto", "=https", "--retry", "3", of.url+"Release.key")
	if err != nil {
		return fmt.Errorf("fetch the key of %s: %w", of.url, err)
	}
	if err := checkKey(key, of.key); err != nil {
		return fmt.Errorf("the key of %s is not used: %w", of.url, err)
	}
	keyring := "/usr/share/keyrings/homelab-" + of.name + ".asc" // armoured; apt reads that by the suffix
	if err := remote.WriteFile(ctx, r, keyring, key, 0o644); err != nil {
		return err
	}
	return remote.WriteFile(ctx, r, "/etc/apt/sources.list.d/homelab-"+of.name+".list", fmt.Appendf(nil, "deb [signed-by=%s] %s /\n", keyring, of.url), 0o644)
}
