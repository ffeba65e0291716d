package nvidia

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/apt"
	"github.com/cps-gpu/homelab/remote"
)

// Toolkit is NVIDIA's container toolkit, which lets containers see GPUs. It comes
// from NVIDIA's own repository, or from a folder; Ubuntu has no such package.
type Toolkit struct {
	Version string // of the packages, e.g. "1.20.1-1"; empty means ToolkitVersion
	Folder  string // on this machine, with Files; empty means NVIDIA's repository
	// Digests are the SHA-256 of the packages that Folder may have, by file; nil means those of ToolkitVersion.
	Digests map[string]string
}

// ToolkitPackage is the main package of the toolkit. It is held wherever homelab has installed it.
const ToolkitPackage = "nvidia-container-toolkit"

// Where the toolkit comes from. apt itself fills in $(ARCH).
const (
	ToolkitVersion    = "1.20.1-1"
	toolkitRepository = "https://nvidia.github.io/libnvidia-container/stable/deb"
	toolkitKeyURL     = "https://nvidia.github.io/libnvidia-container/gpgkey"
	toolkitKeyring    = "/usr/share/keyrings/nvidia-container-toolkit.asc" // armoured; apt reads that by the suffix
	toolkitList       = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
	toolkitSource     = "deb [signed-by=" + toolkitKeyring + "] " + toolkitRepository + "/$(ARCH) /\n"
)

// String names the toolkit with its version.
func (t Toolkit) String() string { return "NVIDIA container toolkit " + t.version() }

func (t Toolkit) version() string {
	if t.Version == "" {
		return ToolkitVersion
	}
	return t.Version
}

// holds returns the toolkit's packages. All four are pinned to one version, because their
// dependencies on each other are loose.
func (t Toolkit) holds() []string {
	return []string{ToolkitPackage, "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"}
}

// packages returns what to install, with the version.
func (t Toolkit) packages() []string {
	names := t.holds()
	for i, name := range names {
		names[i] = name + "=" + t.version()
	}
	return names
}

// InstallToolkit installs and holds the container toolkit. The runner must be root's. K3s
// looks for the toolkit when it starts, so install it first. With a folder, the machine needs no network.
func InstallToolkit(ctx context.Context, r remote.Runner, t Toolkit) error {
	state, err := ObserveDriver(ctx, r)
	if err != nil {
		return err
	}
	if t.diffPackages(state).Empty() {
		return state.restartCRIO(ctx, r)
	}
	do := t.installFromRepository
	if t.Folder != "" {
		do = t.installFiles
	}
	converge.Progressf(ctx, "installing NVIDIA container toolkit %s", t.version())
	if err := do(ctx, r); err != nil {
		return fmt.Errorf("install NVIDIA container toolkit %s: %w", t.version(), err)
	}
	return state.restartCRIO(ctx, r)
}

// restartCRIO lets a CRI-O that runs without NVIDIA's runtime look for it. Its containers go on.
func (s DriverState) restartCRIO(ctx context.Context, r remote.Runner) error {
	if !s.Containerd.CRIO || s.Containerd.NVIDIA {
		return nil
	}
	return remote.Run(ctx, r, "systemctl", "restart", "crio")
}

// installFromRepository installs the toolkit from NVIDIA's repository.
func (t Toolkit) installFromRepository(ctx context.Context, r remote.Runner) error {
	err := remote.Run(ctx, r, "curl", "--fail", "--silent", "--show-error", "--location", "--proto", "=https", "--retry", "3", "--create-dirs", "--output", toolkitKeyring, toolkitKeyURL)
	if err != nil {
		return fmt.Errorf("fetch the key of NVIDIA's package repository: %w", err)
	}
	if err := remote.WriteFile(ctx, r, toolkitList, []byte(toolkitSource), 0o644); err != nil {
		return err
	}
	return install(ctx, r, t.packages(), t.holds())
}

// install installs packages and holds them.
func install(ctx context.Context, r remote.Runner, packages, holds []string) error {
	lists, err := apt.ReadLists(ctx, r)
	if err != nil {
		return err
	}
	if err := apt.Install(ctx, r, packages, lists); err != nil {
		return err
	}
	return hold(ctx, r, holds)
}

func hold(ctx context.Context, r remote.Runner, packages []string) error {
	return remote.Run(ctx, r, slices.Concat([]string{"apt-mark", "hold"}, packages)...)
}

// bare is a package's name without "=version".
func bare(pkg string) string {
	name, _, _ := strings.Cut(pkg, "=")
	return name
}
