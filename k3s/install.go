package k3s

import (
	"context"
	_ "embed" // the script below
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge/progress"
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
	base := r.BaseURL
	if base == "" {
		base = defaultBaseURL
	}
	folder := strings.TrimSuffix(base, "/") + "/" + strings.ReplaceAll(r.Version, "+", "%2B")
	if file == "" {
		return folder
	}
	return folder + "/" + file
}

// Images returns the name of the air-gap tarball.
func (r Release) Images() string {
	if r.NoImages {
		return ""
	}
	return "k3s-airgap-images-" + r.arch() + ".tar.zst"
}

func (r Release) arch() string {
	if r.Arch == "" {
		return "amd64"
	}
	return r.Arch
}

func (r Release) check() error {
	errs := []error{checkVersion(r.Version)}
	if !slices.Contains([]string{"amd64", "arm64", "arm"}, r.arch()) {
		errs = append(errs, fmt.Errorf("k3s architecture %q: write amd64, arm64 or arm", r.Arch))
	}
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
	progress.Say(ctx, "installing k3s %s", release.Version)
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
