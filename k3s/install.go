package k3s

import (
	"cmp"
	"context"
	_ "embed" // the script below
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed install.sh
var installScript string

// defaultBaseURL is where K3s publishes its releases.
const defaultBaseURL = "https://github.com/k3s-io/k3s/releases/download"

// Release is one exact K3s, and where its files come from.
type Release struct {
	Version   string // e.g. "v1.36.5+k3s1"
	Arch      string // amd64 (default), arm64 or arm
	BaseURL   string // folder of the releases, over https; default: K3s' own on GitHub
	Artifacts string // a folder on the machine that has the files already; empty: download them
	NoImages  bool   // leave out the air-gap images; K3s then pulls its images when it starts
}

// URL returns where a file of the release is.
func (r Release) URL(file string) string {
	folder := strings.TrimSuffix(cmp.Or(r.BaseURL, defaultBaseURL), "/") + "/" + strings.ReplaceAll(r.Version, "+", "%2B")
	return strings.TrimSuffix(folder+"/"+file, "/")
}

// Images returns the name of the air-gap tarball.
func (r Release) Images() string {
	if r.NoImages {
		return ""
	}
	return "k3s-airgap-images-" + r.arch() + ".tar.zst"
}

func (r Release) arch() string { return cmp.Or(r.Arch, "amd64") }

// Binary returns the name of the program.
func (r Release) Binary() string {
	switch r.arch() {
	case "amd64":
		return "k3s"
	case "arm":
		return "k3s-armhf"
	}
	return "k3s-" + r.arch()
}

// Sums returns the name of the file of checksums.
func (r Release) Sums() string { return "sha256sum-" + r.arch() + ".txt" }

// archOf is the architecture for what uname -m prints; others stay as they are, and
// [Install] refuses them.
func archOf(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "armv7l", "armv8l":
		return "arm"
	}
	return machine
}

// CheckArch returns an error if K3s has no release for an architecture, as [State.Arch] has it.
func CheckArch(arch string) error {
	if slices.Contains([]string{"", "amd64", "arm64", "arm"}, arch) {
		return nil
	}
	return fmt.Errorf("K3s has no release for %s: it has some for amd64, arm64 and arm", arch)
}

func (r Release) check() error {
	errs := []error{checkVersion(r.Version), CheckArch(r.Arch)}
	if u, err := url.Parse(r.URL("")); err != nil || u.Scheme != "https" || u.Host == "" {
		errs = append(errs, fmt.Errorf("k3s base URL %q: write one that begins with https://", r.BaseURL))
	}
	if r.Artifacts != "" && !path.IsAbs(r.Artifacts) {
		errs = append(errs, fmt.Errorf("k3s artifacts %q: write an absolute folder of the machine", r.Artifacts))
	}
	return errors.Join(errs...)
}

// Install installs the release's binary and images on the machine, checks each against the
// release's checksums, and reports whether it changed anything. It does not start K3s, so it
// also works for baking a template; see [UpgradeServer] for a machine where K3s runs.
func Install(ctx context.Context, r remote.Runner, release Release) (changed bool, err error) {
	if err := release.check(); err != nil {
		return false, err
	}
	converge.Progressf(ctx, "installing k3s %s", release.Version)
	out, err := remote.Output(ctx, r, "sh", "-c", installScript, "install.sh",
		release.Version, release.URL(""), release.arch(), release.Images(), release.Artifacts)
	if err != nil {
		return false, installError(release, err)
	}
	return strings.TrimSpace(string(out)) == "installed", nil
}

// ErrChecksum says that a file is not the release's.
var ErrChecksum = errors.New("checksum does not match")

func installError(release Release, err error) error {
	var exit *remote.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("install k3s %s: %w", release.Version, err)
	}
	said := strings.TrimSpace(exit.Stderr)
	switch exit.Code {
	case 65, 66:
		return fmt.Errorf("install k3s %s: %w: %s; nothing was changed: try again, and if that fails ask the mirror's administrator", release.Version, ErrChecksum, said)
	case 69:
		return fmt.Errorf("install k3s %s: %s; the machine must reach %s, or find the files in the folder named by Artifacts: %w", release.Version, said, release.URL(""), err)
	}
	return fmt.Errorf("install k3s %s: %w", release.Version, err)
}
