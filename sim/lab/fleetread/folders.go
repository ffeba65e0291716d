package fleetread

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// place is a folder that becomes a bundle.
type place struct {
	dir  string // from the root of the repository, "." for the root itself
	file string // its options, from dir; empty: fleet.yaml or fleet.yml, where there is one
	own  bool   // file was named by the GitRepo
}

// scanned finds the folders that become bundles below paths: of each the folder
// itself, where it has options, or manifests that no folder with options has; and
// every folder below with options (cmd/cli/apply/apply.go, CreateBundles and
// shouldCreateBundleForThisPath). No paths are the whole repository.
func scanned(repo fs.FS, paths []string) ([]place, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var out []place
	seen := map[string]bool{}
	for _, pattern := range paths {
		roots, err := expand(repo, strings.TrimLeft(pattern, "/"))
		if err != nil {
			return nil, fmt.Errorf("invalid path glob %s: %w", pattern, err)
		}
		for _, root := range roots {
			dirs, err := below(repo, root)
			if err != nil {
				return nil, err
			}
			for _, dir := range dirs {
				if !seen[dir] {
					seen[dir] = true
					out = append(out, place{dir: dir})
				}
			}
		}
	}
	return out, nil
}

// below lists root and the folders in it that become bundles. Hidden folders count,
// but for .git.
func below(repo fs.FS, root string) ([]string, error) {
	var out []string
	err := fs.WalkDir(repo, root, func(at string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("failed walking path %q: %w", at, err)
		case !e.IsDir():
			return nil
		case e.Name() == ".git":
			return fs.SkipDir
		}
		wanted := hasOptions(repo, at)
		if at == root && !wanted {
			if wanted, err = unclaimed(repo, at); err != nil {
				return err
			}
		}
		if wanted {
			out = append(out, at)
		}
		return nil
	})
	return out, err
}

// hasOptions: fleetyaml/fleetyaml.go, FoundFleetYamlInDirectory.
func hasOptions(repo fs.FS, dir string) bool {
	for _, name := range []string{"fleet.yaml", "fleet.yml"} {
		if _, err := fs.Stat(repo, path.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// unclaimed reports whether dir, or a folder in it, has a file .yaml or .yml and no
// options of its own above it (cmd/cli/apply/apply.go,
// hasSubDirectoryWithResourcesAndWithoutFleetYaml). Hidden folders count, JSON does not.
func unclaimed(repo fs.FS, dir string) (bool, error) {
	if hasOptions(repo, dir) {
		return false, nil
	}
	entries, err := fs.ReadDir(repo, dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			if ext := path.Ext(e.Name()); ext == ".yaml" || ext == ".yml" {
				return true, nil
			}
			continue
		}
		if found, err := unclaimed(repo, path.Join(dir, e.Name())); err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// expand finds the folders that a pattern names, as filepath.Glob of Go does on the
// clone's disk (cmd/cli/apply/apply.go, globDirs). A pattern of nothing names nothing,
// not the repository: GitRepo.spec.paths ["/"] is one, and so is what follows the last
// slash of "apps/*/".
func expand(repo fs.FS, pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(pattern, "/") {
		if part == ".." {
			return nil, &Unknown{Where: pattern, What: "a way up (..) in a path"}
		}
	}
	found, err := matches(repo, pattern)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, at := range found {
		info, err := fs.Lstat(repo, at)
		switch {
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, &Unknown{Where: at, What: "a symbolic link"}
		case info.IsDir():
			dirs = append(dirs, at)
		}
	}
	return dirs, nil
}

func matches(repo fs.FS, pattern string) ([]string, error) {
	if pattern == "" {
		return nil, nil
	}
	if !wild(pattern) {
		at := path.Clean(pattern)
		if _, err := fs.Lstat(repo, at); err != nil {
			return nil, nil //nolint:nilerr // nothing has that name
		}
		return []string{at}, nil
	}
	parent, name := path.Split(pattern)
	parent = cmp.Or(strings.TrimSuffix(parent, "/"), ".")
	parents := []string{path.Clean(parent)}
	if wild(parent) {
		var err error
		if parents, err = matches(repo, parent); err != nil {
			return nil, err
		}
	}
	var out []string
	for _, dir := range parents {
		entries, err := fs.ReadDir(repo, dir)
		if err != nil {
			continue // a file, or nothing
		}
		for _, e := range entries {
			if ok, err := path.Match(name, e.Name()); err != nil {
				return nil, err
			} else if ok {
				out = append(out, path.Join(dir, e.Name()))
			}
		}
	}
	return out, nil
}

func wild(pattern string) bool { return strings.ContainsAny(pattern, `*?[\`) }

// driven are the folders that a GitRepo lists itself. Nothing is searched, nothing
// expanded, and a leading slash is not removed: it names a folder of the job's
// machine, where there is none (cmd/cli/apply/apply.go, CreateBundlesDriven).
func driven(bundles []Driven) ([]place, error) {
	var out []place
	for _, b := range bundles {
		for part := range strings.SplitSeq(b.Base+"/"+b.Options, "/") {
			if part == ".." {
				return nil, &Unknown{Where: b.Base, What: "a way up (..) in a path"}
			}
		}
		out = append(out, place{dir: path.Clean(b.Base), file: b.Options, own: b.Options != ""})
	}
	return out, nil
}
