// Package artifacts is K3s as a node gets it: from the internet, or from the files of the
// folder k3s.airgap, and its image registries.
package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
)

// Registries are the image registries of the file with their passwords and
// certificates, read when they are first needed.
func Registries(s *spec.Spec) ([]k3s.Registry, error) {
	var out []k3s.Registry
	for _, r := range s.K3s.Registries {
		reg := k3s.Registry{Name: r.Name, Endpoints: r.Endpoints, Rewrite: r.Rewrite, Username: r.Username, Insecure: r.Insecure}
		var err error
		if !r.Password.IsZero() {
			if reg.Password, err = r.Password.Resolve(); err != nil {
				return nil, fmt.Errorf("k3s.registries.%s.password: %w", r.Name, err)
			}
		}
		if r.CAFile != "" {
			if reg.CA, err = limit.File(r.CAFile, limit.Named); err != nil {
				return nil, fmt.Errorf("k3s.registries.%s.ca: %w", r.Name, err)
			}
		}
		out = append(out, reg)
	}
	return out, nil
}

// folder is where a node gets the files of k3s.airgap, until they are installed.
const folder = "/var/lib/rancher/homelab.airgap"

// requiredFiles names the files of the folder k3s.airgap that a release requires.
func requiredFiles(r k3s.Release) []string {
	return []string{r.Sums(), r.Binary(), r.Images()}
}

// releasesIn are the releases whose files the folder k3s.airgap has: one for each architecture whose
// checksums are there, else that of VMs, which is then missed.
func releasesIn(root *os.Root, version string) []k3s.Release {
	var out []k3s.Release
	for _, arch := range []string{"amd64", "arm64", "arm"} {
		r := k3s.Release{Version: version, Arch: arch}
		if _, err := root.Lstat(r.Sums()); err == nil {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		out = []k3s.Release{{Version: version}}
	}
	return out
}

// SumsURL is the URL of the checksums of the file's release of K3s, "" if its files come from a
// folder.
func SumsURL(s *spec.Spec) string {
	if s.K3s.AirgapDir != "" {
		return ""
	}
	return k3s.Release{Version: s.K3s.Version}.URL(requiredFiles(k3s.Release{})[0])
}

// Check returns an error that lists the files that the folder k3s.airgap lacks.
func Check(s *spec.Spec) error {
	if s.K3s.AirgapDir == "" {
		return nil
	}
	root, err := os.OpenRoot(s.K3s.AirgapDir)
	if err != nil {
		return converge.Permanent(fmt.Errorf("the folder of k3s.airgap: %w%s", err, s.Mirror.FilledBy(s.K3s.AirgapDir)))
	}
	defer func() { _ = root.Close() }()
	var errs []error
	for _, release := range releasesIn(root, s.K3s.Version) {
		for _, name := range requiredFiles(release) {
			errs = append(errs, checkArtifact(root, name, release.URL(name)+s.Mirror.FilledBy(s.K3s.AirgapDir)))
		}
	}
	return converge.Permanent(errors.Join(errs...))
}

// checkArtifact says what is wrong with a file of the folder k3s.airgap. If the file is a link,
// its target must be in the folder too, since it is copied to the nodes.
func checkArtifact(root *os.Root, name, url string) error {
	info, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s (k3s.airgap) has no %s: put it there from %s", root.Name(), name, url)
	}
	if err != nil {
		if link, e := root.Lstat(name); e == nil && link.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link out of the folder %s (k3s.airgap): put the file itself there", filepath.Join(root.Name(), name), root.Name())
		}
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s in %s (k3s.airgap) is not a file", name, root.Name())
	}
	return nil
}

// Release is K3s as a node of an architecture gets it: from the internet, or from the files that
// Staged has copied there. VMs are amd64; an external machine says what it is ([k3s.State.Arch]).
func Release(s *spec.Spec, arch string) k3s.Release {
	r := k3s.Release{Version: s.K3s.Version, Arch: arch}
	if s.K3s.AirgapDir != "" {
		r.Artifacts = folder
	}
	return r
}

// Install installs K3s on a node of an architecture, in the version of the file.
func Install(ctx context.Context, s *spec.Spec, root remote.Runner, arch string) error {
	return WithStaged(ctx, s, root, arch, func(ctx context.Context) error {
		_, err := k3s.Install(ctx, nodes.WithProxy(s, root), Release(s, arch))
		return err
	})
}

// WithStaged copies the files of k3s.airgap to a node, if the file has that key, and deletes them
// after do has used them.
func WithStaged(ctx context.Context, s *spec.Spec, root remote.Runner, arch string, do func(context.Context) error) error {
	dir := s.K3s.AirgapDir
	if dir == "" {
		return do(ctx)
	}
	if err := Check(s); err != nil {
		return err
	}
	for _, name := range requiredFiles(Release(s, arch)) {
		converge.Progressf(ctx, "copying %s", name)
		if err := copyTo(ctx, root, dir, name, folder+"/"+name); err != nil {
			return err
		}
	}
	if err := do(ctx); err != nil {
		return err
	}
	return remote.Run(ctx, root, "rm", "-rf", folder)
}

func copyTo(ctx context.Context, r remote.Runner, dir, name, path string) error {
	f, err := os.OpenInRoot(dir, name)
	if err != nil {
		return fmt.Errorf("the folder of k3s.airgap: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return remote.CopyFile(ctx, r, path, f, info.Size(), 0o644)
}
