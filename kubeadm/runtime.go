package kubeadm

import (
	"cmp"
	"context"
	_ "embed" // the configurations
	"fmt"

	"github.com/cps-gpu/homelab/remote"
)

// Runtime is what runs containers on a machine.
type Runtime string

// The runtimes. A machine keeps the one that it was set up with.
const (
	Containerd Runtime = "containerd" // the distribution's own
	CRIO       Runtime = "crio"       // of its own repository, of the minor of Kubernetes
)

// Where the runtimes are on a machine.
const (
	containerdFile = "/etc/containerd/config.toml"
	crioFile       = "/etc/crio/crio.conf.d/90-homelab.conf" // after the package's own, and before what nvidia-ctk writes
)

// containerdConfig has systemd's cgroups, as kubelet has by kubeadm's default, and NVIDIA's runtime as a handler, which
// is never the default. containerd 2 reads version 2, too. A runtime is looked for only when a pod asks for it.
//
//go:embed containerd.toml
var containerdConfig []byte

// crioConfig has the same for CRI-O, as nvidia-ctk writes it (pkg/config/engine/crio). CRI-O looks for a handler's
// runtime when it starts, and is without the handler if there is none (pkg/config/config.go, ValidateRuntimes), until it is
// restarted.
//
//go:embed crio.conf
var crioConfig []byte

// socket is where kubelet asks it (constants/constants_unix.go).
func (r Runtime) socket() string {
	if r == CRIO {
		return "unix:///var/run/crio/crio.sock"
	}
	return "unix:///run/containerd/containerd.sock"
}

// service is its unit.
func (r Runtime) service() string { return string(cmp.Or(r, Containerd)) }

// needs are its packages besides the held ones. NVIDIA's runtime runs runc, which it looks for in PATH, and CRI-O's
// package keeps its own elsewhere.
func (r Runtime) needs() []string {
	if r == CRIO {
		return []string{"runc"}
	}
	return []string{"containerd"}
}

// prepare writes its configuration, which its package keeps, and adds its repository.
func (r Release) prepareRuntime(ctx context.Context, on remote.Runner) error {
	if r.Runtime != CRIO {
		return remote.WriteFile(ctx, on, containerdFile, containerdConfig, 0o644)
	}
	if err := remote.WriteFile(ctx, on, crioFile, crioConfig, 0o644); err != nil {
		return err
	}
	minor, _ := parts(r.Version)
	return addRepository(ctx, on, repository{
		name: "cri-o", url: fmt.Sprintf("https://download.opensuse.org/repositories/isv:/cri-o:/stable:/v1.%d/deb/", minor),
		key: cmp.Or(r.Key, crioFingerprint),
	})
}

// CheckRuntime says that a machine has another runtime than the wanted one: its containers are in its own.
func (s State) CheckRuntime(want Runtime) error {
	if want = cmp.Or(want, Containerd); s.Version != "" && s.Runtime != want {
		return fmt.Errorf("its containers run in %s, and should in %s", s.Runtime, want)
	}
	return nil
}
