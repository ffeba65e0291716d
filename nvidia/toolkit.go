package nvidia

import (
	"context"
	"crypto/sha256"
	_ "embed" // toolkit.sha256
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/apt"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/internal/sums"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed toolkit.sha256
var toolkitSums string

// toolkitCache is where a machine has the packages of a folder until they are installed.
const toolkitCache = "/var/cache/homelab-toolkit/"

// largestPackage bounds what is read of a file in the folder: the largest package has 6 MB.
const largestPackage = 64 << 20

// Files are the names of the packages in NVIDIA's repository, for amd64, and the SHA-256 that each must have; "" if
// that is not known, as of another version without Digests.
func (t Toolkit) Files() map[string]string {
	known := t.Digests
	if known == nil {
		known, _ = sums.Read(strings.NewReader(toolkitSums)) // of short lines
	}
	files := map[string]string{}
	for _, name := range t.holds() {
		file := name + "_" + t.version() + "_amd64.deb"
		files[file] = known[file]
	}
	return files
}

// ToolkitURL is where NVIDIA has a file of the toolkit.
func ToolkitURL(file string) string { return toolkitRepository + "/amd64/" + file }

// CheckFolder returns an error that lists the files that Folder lacks, and those that are not what they should be.
func (t Toolkit) CheckFolder() error {
	_, err := t.readFolder()
	return err
}

// readFolder returns the packages in the folder, each with its digest, or none.
func (t Toolkit) readFolder() (map[string][]byte, error) {
	files, packages := t.Files(), map[string][]byte{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data, err := readPackage(filepath.Join(t.Folder, name), files[name])
		packages[name] = data
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, converge.Permanent(err)
	}
	return packages, nil
}

func readPackage(path, want string) ([]byte, error) {
	folder, name := filepath.Split(path)
	data, err := limit.File(path, largestPackage)
	switch sum := sha256.Sum256(data); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the folder %s has no %s: put it there from %s", filepath.Clean(folder), name, ToolkitURL(name))
	case err != nil:
		return nil, err
	case want == "":
		return nil, fmt.Errorf("the checksum of %s is not known, so it is not installed", name)
	case hex.EncodeToString(sum[:]) != want:
		return nil, fmt.Errorf("%s is not the file of its checksum: get it again from %s", path, ToolkitURL(name))
	}
	return data, nil
}

// installFiles installs the packages of the folder. All are read and checked first: what a machine gets is what was
// checked, and it gets all of them or none.
func (t Toolkit) installFiles(ctx context.Context, r remote.Runner) error {
	packages, err := t.readFolder()
	if err != nil {
		return err
	}
	// NVIDIA's repository, which it cannot reach, if it had the toolkit from there: apt-get update would miss it for good.
	if err := remote.Run(ctx, r, "rm", "-f", toolkitList); err != nil {
		return err
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		path := toolkitCache + name
		if err := remote.WriteFile(ctx, r, path, packages[name], 0o644); err != nil {
			return err
		}
		paths = append(paths, path)
	}
	if err := apt.Install(ctx, r, paths, ""); err != nil {
		return err
	}
	if err := hold(ctx, r, t.holds()); err != nil {
		return err
	}
	return remote.Run(ctx, r, "rm", "-rf", toolkitCache)
}
