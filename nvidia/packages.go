package nvidia

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/remote"
)

// Packages returns what to install on Ubuntu 24.04 for computing, without a
// desktop: the kernel, the modules that Canonical builds and signs for it, and
// NVIDIA's libraries. The two metapackages linux-generic and
// linux-modules-nvidia-… move together; the signed modules load with Secure Boot.
//
// linux-generic stands in for the cloud image's linux-virtual: it has the same
// kernel, and brings linux-modules-extra, which nvidia-drm may need.
func (d Driver) Packages() []string {
	server := fmt.Sprintf("%d-server", d.Branch)
	return []string{
		"linux-generic",
		"linux-modules-nvidia-" + d.String() + "-generic",
		"nvidia-headless-no-dkms-" + d.String(),
		"nvidia-utils-" + server,
		"libnvidia-decode-" + server,
		"libnvidia-encode-" + server,
	}
}

// Holds returns the packages that must not change by themselves. A kernel that
// moves without its modules, or a library that moves without the loaded module,
// takes every GPU of the machine away.
func (d Driver) Holds() []string {
	server := fmt.Sprintf("%d-server", d.Branch)
	return append(d.Packages(),
		"linux-image-generic",
		"linux-headers-generic",
		"nvidia-kernel-common-"+server,
		"nvidia-compute-utils-"+server,
		"libnvidia-compute-"+server,
	)
}

// Toolkit is NVIDIA's container toolkit, which lets containers see GPUs. It comes
// from NVIDIA's own repository; Ubuntu has no such package.
type Toolkit struct {
	Version string // of the packages, e.g. "1.20.1-1"; empty means ToolkitVersion
}

// Where the toolkit comes from. apt itself fills in $(ARCH).
const (
	ToolkitVersion = "1.20.1-1"
	ToolkitKeyURL  = "https://nvidia.github.io/libnvidia-container/gpgkey"
	toolkitKeyring = "/usr/share/keyrings/nvidia-container-toolkit.asc" // armoured; apt reads that by the suffix
	toolkitList    = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
	toolkitSource  = "deb [signed-by=" + toolkitKeyring + "] https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /\n"
)

func (t Toolkit) version() string {
	if t.Version == "" {
		return ToolkitVersion
	}
	return t.Version
}

// Holds returns the toolkit's packages. All four are pinned to one version: they
// depend on each other only loosely.
func (t Toolkit) Holds() []string {
	return []string{"nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"}
}

// Packages returns what to install, with the version.
func (t Toolkit) Packages() []string {
	names := t.Holds()
	for i, name := range names {
		names[i] = name + "=" + t.version()
	}
	return names
}

// InstallDriver installs and holds what is missing of the driver. The runner must
// be root's. A machine on which nothing is missing is not touched. The modules are
// for the newest kernel that is installed, so a machine that runs an older one has
// to be restarted; [Driver.Diff] says so.
func InstallDriver(ctx context.Context, r remote.Runner, d Driver) error {
	state, err := ObserveDriver(ctx, r)
	if err != nil {
		return err
	}
	if d.DiffPackages(state).Empty() {
		return nil
	}
	progress.Say(ctx, "installing NVIDIA driver %s", d)
	if err := install(ctx, r, d.Packages(), d.Holds()); err != nil {
		return fmt.Errorf("install NVIDIA driver %s: %w", d, err)
	}
	return nil
}

// InstallToolkit installs and holds the container toolkit. The runner must be
// root's. K3s looks for the toolkit when it starts, so this comes before.
func InstallToolkit(ctx context.Context, r remote.Runner, t Toolkit) error {
	state, err := ObserveDriver(ctx, r)
	if err != nil {
		return err
	}
	if t.DiffPackages(state).Empty() {
		return nil
	}
	progress.Say(ctx, "installing NVIDIA container toolkit %s", t.version())
	err = remote.Run(ctx, r, "curl", "--fail", "--silent", "--show-error", "--location", "--proto", "=https", "--retry", "3", "--create-dirs", "--output", toolkitKeyring, ToolkitKeyURL)
	if err != nil {
		return fmt.Errorf("fetch the key of NVIDIA's package repository: %w", err)
	}
	if err := remote.WriteFile(ctx, r, toolkitList, []byte(toolkitSource), 0o644); err != nil {
		return fmt.Errorf("install NVIDIA container toolkit: %w", err)
	}
	if err := install(ctx, r, t.Packages(), t.Holds()); err != nil {
		return fmt.Errorf("install NVIDIA container toolkit %s: %w", t.version(), err)
	}
	return nil
}

// install brings packages in and holds them.
func install(ctx context.Context, r remote.Runner, packages, holds []string) error {
	apt := []string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=300"}
	var lists remote.Tail // what could not be fetched is a warning of apt's, under status 0
	if err := readLists(ctx, r, slices.Concat(apt, []string{"update"}), &lists); err != nil {
		return err
	}
	args := slices.Concat(apt, []string{"install", "--yes", "--no-install-recommends", "--allow-change-held-packages"}, packages)
	var said remote.Tail
	if err := r.Run(ctx, remote.Cmd{Args: args, Stdout: io.MultiWriter(progress.Lines(ctx), &said)}); err != nil {
		return why(err, said.String(), lists.String())
	}
	return remote.Run(ctx, r, slices.Concat([]string{"apt-mark", "hold"}, holds)...)
}

// why adds to a failed installation what apt-get said elsewhere of its cause: which
// dependencies are not met, to its standard output, and which repositories could not be
// reached, while it read the lists.
func why(err error, said, lists string) error {
	const unmet = "The following packages have unmet dependencies:"
	if _, after, found := strings.Cut(said, unmet); found {
		err = fmt.Errorf("%w; unmet dependencies: %s", err, remote.Telling(after))
	}
	if strings.Contains(lists, "W: Failed to fetch") {
		err = fmt.Errorf("%w; apt-get update had said: %s\n  does the machine reach that repository, or does a proxy (guest.apt) stand in the way?", err, remote.Telling(lists))
	}
	return err
}

// How long somebody else's update of the lists is waited for, and how long between two tries.
const (
	listsTime = 5 * time.Minute
	listsPoll = 5 * time.Second
)

// readLists reads the package lists. apt-get waits for dpkg's lock, and not for that of
// the lists (DPkg::Lock::Timeout does not reach it), which Ubuntu's own timer takes
// after a boot.
func readLists(ctx context.Context, r remote.Runner, args []string, said io.Writer) error {
	for begun := time.Now(); ; {
		err := r.Run(ctx, remote.Cmd{Args: args, Stderr: said})
		var exit *remote.ExitError
		if !errors.As(err, &exit) || !strings.Contains(exit.Stderr, "Could not get lock") || time.Since(begun) > listsTime {
			return err
		}
		progress.Say(ctx, "waiting for another apt-get")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(listsPoll):
		}
	}
}

// bare is a package's name without "=version".
func bare(pkg string) string {
	name, _, _ := strings.Cut(pkg, "=")
	return name
}
