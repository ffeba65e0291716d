package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
)

// Write writes t to a local folder, and returns what it changed. Files of others stay; if
// somebody changed one of our files, that is a [*ForeignError], unless overwrite is set. A
// missing folder is created.
func Write(dir string, t Tree, overwrite bool) ([]Change, error) {
	have, err := readFolder(dir, t)
	if err != nil {
		return nil, err
	}
	changes, foreign, err := merge(have, t)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", dir, err)
	case len(foreign) > 0 && !overwrite:
		return nil, &ForeignError{Where: dir, Files: foreign}
	}
	changes = append(addForced(have, t, foreign), changes...)
	if len(changes) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// A Root, so that a symbolic link cannot lead out of the folder. The list comes last: the
	// files of an interrupted run equal what the next run writes, so they do not look as if
	// changed by hand.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	slices.SortStableFunc(changes, func(a, b Change) int { return boolInt(a.Path == ListFile) - boolInt(b.Path == ListFile) })
	for _, c := range changes {
		if err := write(root, c); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func write(root *os.Root, c Change) error {
	if c.What != Removed {
		if err := root.MkdirAll(path.Dir(c.Path), 0o755); err != nil {
			return err
		}
		return root.WriteFile(c.Path, c.Want, 0o644)
	}
	if err := root.Remove(c.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
		if root.Remove(dir) != nil {
			break // it contains something else
		}
	}
	return nil
}

// readFolder reads our files of a folder, and those at paths where ours will be.
func readFolder(dir string, want Tree) (Tree, error) {
	have := Tree{}
	read := func(name string) error {
		full := filepath.Join(dir, filepath.FromSlash(name))
		info, err := os.Lstat(full)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && info.IsDir():
			return nil
		case errors.Is(err, syscall.ENOTDIR):
			return nil
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			have[name] = nil // a link: not written by us
			return nil
		}
		have[name], err = os.ReadFile(full)
		return err
	}
	if err := read(ListFile); err != nil {
		return nil, err
	}
	ours, err := parseList(have[ListFile])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	for name := range ours {
		if err := read(name); err != nil {
			return nil, err
		}
	}
	for name := range want {
		for ; name != "."; name = path.Dir(name) {
			if err := read(name); err != nil {
				return nil, err
			}
		}
	}
	return have, nil
}
