package fleetread

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// pattern is a line of a .fleetignore, and where it holds.
type pattern struct{ at, text string }

// collect reads what of a folder goes into its bundle: all files, but those of
// options, hidden ones, and what a .fleetignore names (bundlereader/loaddirectory.go,
// GetContent). Names are from the folder.
func collect(repo fs.FS, dir string, options []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	var ignored []pattern
	err := fs.WalkDir(repo, dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := from(dir, at)
		skip, err := isIgnored(ignored, at, e.IsDir())
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if slices.Contains(options, name) {
			return nil // a folder of such a name is walked, and its .fleetignore is not read
		}
		hidden := at != "." && strings.HasPrefix(path.Base(at), ".")
		switch {
		case e.IsDir() && (skip || hidden):
			return fs.SkipDir
		case e.IsDir():
			more, err := readIgnore(repo, at)
			ignored = append(ignored, more...)
			return err
		case skip || hidden:
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			return &Unknown{Where: at, What: "a symbolic link"}
		}
		out[name], err = fs.ReadFile(repo, at)
		return err
	})
	return out, err
}

// from is the name of a file as seen from a folder.
func from(dir, at string) string {
	switch dir {
	case at:
		return "."
	case ".":
		return at
	}
	return strings.TrimPrefix(at, dir+"/")
}

// isIgnored holds the last part of a name to all patterns of folders above it. Fleet
// compares the folders' names by their beginnings: what the .fleetignore of app says
// holds in app-two, too (bundlereader/loaddirectory.go, isIgnored and findNode).
// NAME/* are folders of that name, wherever they are.
func isIgnored(patterns []pattern, at string, isDir bool) (bool, error) {
	base := path.Base(at)
	for _, p := range patterns {
		if p.at != "." && !strings.HasPrefix(at, p.at) {
			continue
		}
		if strings.LastIndex(p.text, "/*") > 0 {
			if isDir && strings.TrimSuffix(p.text, "/*") == base {
				return true, nil
			}
			continue
		}
		if ok, err := path.Match(p.text, base); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

var trailing = regexp.MustCompile(`([^\\])\s+$`)

// readIgnore: bundlereader/loaddirectory.go, readFleetIgnore.
func readIgnore(repo fs.FS, dir string) ([]pattern, error) {
	file := path.Join(dir, ".fleetignore")
	data, err := fs.ReadFile(repo, file)
	if _, is := fs.Stat(repo, file); is != nil {
		return nil, nil //nolint:nilerr // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("read .fleetignore for %s: %w", dir, err)
	}
	var out []pattern
	for line := range strings.Lines(string(data)) {
		line = trailing.ReplaceAllString(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), "$1")
		if line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, pattern{dir, line})
		}
	}
	return out, nil
}
