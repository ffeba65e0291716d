// Package occupants finds the Kubernetes that a machine has already, whichever tool set it up, before the machine
// becomes a node.
package occupants

import (
	"context"
	_ "embed" // observe.sh
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed observe.sh
var observeScript string

// Traces are what each tool has on a machine, by the tool's name in observe.sh, which is that of its distribution's steps.
type Traces map[string][]string

// Observe looks at the machine behind root, as root, and changes nothing.
func Observe(ctx context.Context, root remote.Runner) (Traces, error) {
	out, err := remote.Output(ctx, root, "sh", "-c", observeScript, "observe.sh")
	if err != nil {
		return nil, fmt.Errorf("look for a Kubernetes that is there already: %w", err)
	}
	found := Traces{}
	for line := range strings.Lines(string(out)) {
		tool, what, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && !slices.Contains(found[tool], what) {
			found[tool] = append(found[tool], what)
		}
	}
	return found, nil
}

// Others says what there is of tools but ours, and what to do about it; "": nothing.
func (t Traces) Others(ours, node string) string {
	var is, remove []string
	for _, tool := range slices.Sorted(maps.Keys(t)) {
		if tool != ours {
			title, how := removal(tool)
			is, remove = append(is, title+" ("+t.List(tool)+")"), append(remove, how)
		}
	}
	if is == nil {
		return ""
	}
	return fmt.Sprintf("Kubernetes is there already, of %s: move its work and remove it (%s), or take %s out of the file", strings.Join(is, " and "), strings.Join(remove, "; "), node)
}

// List lists what there is of a tool; "": nothing.
func (t Traces) List(tool string) string { return printable.Text(strings.Join(t[tool], ", ")) }

// removal says what a tool is called, and how its Kubernetes is removed.
func removal(tool string) (title, how string) {
	switch tool {
	case "k3s":
		return "K3s", "k3s-uninstall.sh or k3s-agent-uninstall.sh"
	case "rke2":
		return "RKE2", "rke2-uninstall.sh"
	case "k0s":
		return "k0s", "k0s stop, k0s reset, and rm -r /etc/k0s"
	case "microk8s":
		return "MicroK8s", "snap remove --purge microk8s"
	case "k8s":
		return "Canonical Kubernetes", "snap remove --purge k8s"
	case "kubeadm":
		return "kubeadm", "kubeadm reset"
	}
	return "a tool that homelab does not know", "as its documentation says"
}
