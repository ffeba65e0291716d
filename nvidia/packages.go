package nvidia

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

// Toolkit is NVIDIA's container toolkit, which lets containers see GPUs. It comes
// from NVIDIA's own repository; Ubuntu has no such package.
type Toolkit struct {
	Version string // of the packages, e.g. "1.20.1-1"; empty means ToolkitVersion
}

// Where the toolkit comes from. apt itself fills in $(ARCH).
const (
	ToolkitVersion = "1.20.1-1"
	toolkitKeyURL  = "https://nvidia.github.io/libnvidia-container/gpgkey"
	toolkitKeyring = "/usr/share/keyrings/nvidia-container-toolkit.asc" // armoured; apt reads that by the suffix
	toolkitList    = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
	toolkitSource  = "deb [signed-by=" + toolkitKeyring + "] https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /\n"
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
	return []string{"nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"}
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
// looks for the toolkit when it starts, so install it first.
func InstallToolkit(ctx context.Context, r remote.Runner, t Toolkit) error {
	state, err := ObserveDriver(ctx, r)
	if err != nil {
		return err
	}
	if t.diffPackages(state).Empty() {
		return nil
	}
	converge.Progressf(ctx, "installing NVIDIA container toolkit %s", t.version())
	err = remote.Run(ctx, r, "curl", "--fail", "--silent", "--show-error", "--location", "--proto", "=https", "--retry", "3", "--create-dirs", "--output", toolkitKeyring, toolkitKeyURL)
	if err != nil {
		return fmt.Errorf("fetch the key of NVIDIA's package repository: %w", err)
	}
	if err := remote.WriteFile(ctx, r, toolkitList, []byte(toolkitSource), 0o644); err != nil {
		return fmt.Errorf("install NVIDIA container toolkit: %w", err)
	}
	if err := install(ctx, r, t.packages(), t.holds()); err != nil {
		return fmt.Errorf("install NVIDIA container toolkit %s: %w", t.version(), err)
	}
	return nil
}

// install installs packages and holds them.
func install(ctx context.Context, r remote.Runner, packages, holds []string) error {
	lists, err := readLists(ctx, r)
	if err != nil {
		return err
	}
	if err := add(ctx, r, packages, lists); err != nil {
		return err
	}
	return remote.Run(ctx, r, slices.Concat([]string{"apt-mark", "hold"}, holds)...)
}

// apt runs apt-get without questions.
func apt(args ...string) []string {
	return append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=300"}, args...)
}

// add installs packages with apt-get. lists is apt-get's output when it read the package
// lists.
func add(ctx context.Context, r remote.Runner, packages []string, lists string, options ...string) error {
	var said remote.Tail
	args := slices.Concat(apt("install", "--yes", "--no-install-recommends", "--allow-change-held-packages"), options, packages)
	if err := r.Run(ctx, remote.Cmd{Args: args, Stdout: io.MultiWriter(converge.ProgressWriter(ctx), &said)}); err != nil {
		return explainAptError(err, said.String(), lists)
	}
	return nil
}

// explainAptError adds further causes to the error of an installation: unmet dependencies, which apt-get
// prints to its standard output, and repositories that could not be reached when it read the
// lists.
func explainAptError(err error, said, lists string) error {
	const unmet = "The following packages have unmet dependencies:"
	if _, after, found := strings.Cut(said, unmet); found {
		err = fmt.Errorf("%w; unmet dependencies: %s", err, remote.FailureText(after))
	}
	if strings.Contains(lists, "W: Failed to fetch") {
		err = fmt.Errorf("%w; apt-get update had said: %s\n  does the machine reach that repository, or does a proxy (guest.apt) block it?",
			err, remote.FailureText(lists))
	}
	return err
}

// How long to wait for another process that updates the lists, and the interval between two
// tries.
const (
	listsTime = 5 * time.Minute
	listsPoll = 5 * time.Second
)

// readLists updates the package lists, and returns apt-get's warnings about lists that could
// not be fetched, for which it exits with 0. apt-get waits for dpkg's lock, but not for that
// of the lists (DPkg::Lock::Timeout does not apply to it), which Ubuntu's own timer takes
// after a boot; so readLists retries.
func readLists(ctx context.Context, r remote.Runner) (string, error) {
	var said remote.Tail
	var err error
	over := converge.Until(ctx, converge.WaitRule{What: "waiting for another apt-get", Limit: listsTime, Poll: listsPoll}, func(context.Context) (string, error) {
		said = remote.Tail{}
		err = r.Run(ctx, remote.Cmd{Args: apt("update"), Stderr: &said})
		var exit *remote.ExitError
		if errors.As(err, &exit) && strings.Contains(exit.Stderr, "Could not get lock") {
			return "", err
		}
		return "", nil
	})
	if over != nil {
		return "", over
	}
	return said.String(), err
}

// bare is a package's name without "=version".
func bare(pkg string) string {
	name, _, _ := strings.Cut(pkg, "=")
	return name
}
