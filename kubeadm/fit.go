package kubeadm

import (
	"context"
	_ "embed" // the script below
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed fit.sh
var fitScript string

// InspectMachine says all that keeps Kubernetes from being set up on a machine that somebody else has set up, with what
// to do about each, and changes nothing. What [Claim] has marked may have packages and files: they are homelab's.
func InspectMachine(ctx context.Context, r remote.Runner, role Role, claimed bool) (problems []string, err error) {
	state := "found"
	if claimed {
		state = "claimed"
	}
	out, err := remote.Output(ctx, r, "sh", "-c", fitScript, "fit.sh", string(role), state)
	if err != nil {
		return nil, fmt.Errorf("look at the machine: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if kind, what, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			problems = append(problems, unfit(kind, printable.Text(what)))
		}
	}
	return problems, nil
}

// unfit says what a line of fit.sh means.
func unfit(kind, what string) string {
	switch kind {
	case "system":
		return fmt.Sprintf("its system is %s, and Kubernetes is installed by packages of Debian and Ubuntu: install one of these there, or write distribution: k3s", what)
	case "arch":
		return fmt.Sprintf("it is %s, and homelab installs kubeadm's Kubernetes on amd64 and arm64: install a 64-bit system there, or write distribution: k3s", what)
	case "swap":
		return fmt.Sprintf("it swaps to %s, with which kubelet does not start: run there, as root, swapoff -a, and take swap out of /etc/fstab, or remove the package that sets it up (dphys-swapfile, rpi-swap, zram-tools)", what)
	case "cgroup":
		return "its kernel counts no memory of groups, which kubelet needs: add cgroup_enable=memory cgroup_memory=1 to its command line (on a Raspberry Pi /boot/firmware/cmdline.txt), and restart it"
	case "cores":
		return fmt.Sprintf("it has %s core, and kubeadm refuses a server with fewer than two: make it an agent, or take another machine", what)
	case "packages":
		return fmt.Sprintf("it has %s already, which homelab would change for anyone who uses them: move that work and remove them there (apt-get purge), or take the machine out of the file", what)
	case "file":
		return fmt.Sprintf("%s is there already, and homelab installs its own: remove it there if nobody needs it, or take the machine out of the file", what)
	case "folder":
		return fmt.Sprintf("%s has files already, of a Kubernetes or etcd that is not homelab's: save what is needed and empty it there (kubeadm reset), or take the machine out of the file", what)
	}
	return kind + " " + what
}
