package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/sums"
	"github.com/cps-gpu/homelab/k3s"
)

// CheckSums checks the files of k3s.airgap against their checksums, and that they are of the
// file's version, before the first node gets one of them. K3s' checksums do not name a version, so a
// folder of another release would pass them.
func CheckSums(ctx context.Context, s *spec.Spec) error {
	if s.K3s.AirgapDir == "" {
		return nil
	}
	if err := Check(s); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.K3s.AirgapDir)
	if err != nil {
		return converge.Permanent(fmt.Errorf("the folder of k3s.airgap: %w", err))
	}
	defer func() { _ = root.Close() }()
	var errs []error
	for _, release := range releasesIn(root, s.K3s.Version) {
		listed, err := readSums(root, release.Sums())
		if err != nil {
			return converge.Permanent(err)
		}
		for _, name := range requiredFiles(release)[1:] {
			errs = append(errs, checkSum(ctx, root, release, name, listed[name]))
		}
	}
	return converge.Permanent(errors.Join(errs...))
}

// checkSum checks one file of a release.
func checkSum(ctx context.Context, root *os.Root, release k3s.Release, name, want string) error {
	converge.Progressf(ctx, "checking %s", filepath.Join(root.Name(), name))
	got, others, err := digest(ctx, root, name, release.Version)
	switch path := filepath.Join(root.Name(), name); {
	case err != nil:
		return err
	case want == "":
		return fmt.Errorf("%s has no line for %s: get it again from %s", filepath.Join(root.Name(), release.Sums()), name, release.URL(release.Sums()))
	case got != want:
		return fmt.Errorf("%s (k3s.airgap) is not the file of its checksum: get it again from %s", path, release.URL(name))
	case name == release.Binary() && others != "":
		return fmt.Errorf("%s (k3s.airgap) is K3s %s, and the file says %s: get the three files of that release from %s", path, others, release.Version, release.URL(""))
	}
	return nil
}

// readSums reads the list of a release's checksums.
func readSums(root *os.Root, name string) (map[string]string, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return sums.Read(io.LimitReader(f, 1<<20))
}

// versionIn is a release of K3s in its program.
var versionIn = regexp.MustCompile(`v1\.\d{1,3}\.\d{1,3}(-rc\d{1,3})?\+k3s\d{1,3}`)

// digest returns a file's SHA-256, and another version than want if the file names one and
// not want.
func digest(ctx context.Context, root *os.Root, name, want string) (sum, other string, err error) {
	f, err := root.Open(name)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = f.Close() }()
	hash, named := sha256.New(), false
	const overlap = 64 // a version may lie across two pieces
	piece, kept := make([]byte, overlap+1<<20), 0
	for {
		n, err := io.ReadFull(f, piece[kept:])
		hash.Write(piece[kept : kept+n])
		for _, v := range versionIn.FindAll(piece[:kept+n], -1) {
			if string(v) == want {
				named = true
			} else {
				other = string(v)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return "", "", err
		}
		kept = copy(piece, piece[kept+n-overlap:kept+n])
	}
	if named {
		other = ""
	}
	return hex.EncodeToString(hash.Sum(nil)), other, nil
}
