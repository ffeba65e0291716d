package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// lintPlace is a folder that becomes a bundle, and its options file, from the root.
type lintPlace struct {
	dir, file string
	own       bool // the GitRepo named the file
}

// scan lists the folders that become bundles, each with its options file.
func (t *lintTree) scan(s BundleScan) ([]lintPlace, error) {
	if len(s.Bundles) > 0 {
		return t.drivenPlaces(s.Bundles), nil
	}
	paths := s.Paths
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var out []lintPlace
	seen := map[string]bool{}
	add := func(dir string) {
		if !seen[dir] {
			seen[dir] = true
			out = append(out, lintPlace{dir: dir, file: t.options(dir)})
		}
	}
	for _, p := range paths {
		bases, err := t.glob(p)
		if err != nil {
			return nil, fmt.Errorf("invalid path glob %s: %w", p, err)
		}
		for _, base := range bases {
			if t.options(base) != "" || t.hasLooseManifests(base) {
				add(base)
			}
			for _, dir := range t.foldersUnder(base)[1:] {
				if t.options(dir) != "" {
					add(dir)
				}
			}
		}
	}
	return out, nil
}

// drivenPlaces: a leading slash is not removed here, and leads out of the repository
// (internal/cmd/cli/apply/apply.go CreateBundlesDriven). A file that the GitRepo names is part
// of the bundle's name, even fleet.yaml.
func (t *lintTree) drivenPlaces(bundles []BundlePath) (out []lintPlace) {
	for _, b := range bundles {
		p := lintPlace{dir: path.Clean(b.Base), own: b.Options != ""}
		if p.file = t.options(p.dir); p.own {
			p.file = path.Join(p.dir, b.Options)
		}
		out = append(out, p)
	}
	return out
}

// glob resolves an entry of paths to folders, as filepath.Glob does: an empty pattern,
// which "/" is, names nothing, and so does an empty part after one with wildcards.
func (t *lintTree) glob(pattern string) (dirs []string, err error) {
	pattern = strings.TrimLeft(pattern, "/")
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	if globNothing(pattern) {
		return nil, nil
	}
	pattern = path.Clean(pattern)
	for _, dir := range slices.Sorted(maps.Keys(t.dirs)) {
		if dir == "." && pattern != "." {
			continue // no entry of any folder
		}
		if ok, err := path.Match(pattern, dir); ok && err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// globNothing says that a pattern can never match anything.
func globNothing(pattern string) bool {
	wild := false
	for part := range strings.SplitSeq(pattern, "/") {
		if pattern == "" || wild && (part == "" || part == ".") {
			return true
		}
		wild = wild || strings.ContainsAny(part, `*?[\`)
	}
	return false
}
