package keep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder is the name of the folder for secrets beside a cluster's file.
const Folder = ".homelab"

// AddGitignore keeps a folder out of Git with a .gitignore of its own. An existing one stays.
func AddGitignore(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, ".gitignore"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // follows no link
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep %s out of Git: %w", dir, err)
	}
	_, err = f.WriteString("*\n")
	if err = errors.Join(err, f.Close()); err != nil { // an empty one would look like the user's own
		return fmt.Errorf("keep %s out of Git: %w", dir, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// CheckNoSymlink returns an error if dir is below the [Folder] and reaches another place through a symbolic
// link: somebody who gives away a folder with a cluster's file could have it lead anywhere.
func CheckNoSymlink(dir string) error {
	top := dir
	for ; filepath.Base(top) != Folder; top = filepath.Dir(top) {
		if top == filepath.Dir(top) {
			return nil
		}
	}
	for ; ; dir = filepath.Dir(dir) {
		if to, err := os.Readlink(dir); err == nil {
			return fmt.Errorf("%s is a symbolic link to %s, and keys and secrets are kept there: put a folder in its place", dir, to)
		}
		if dir == top {
			return nil
		}
	}
}

// ignore calls AddGitignore for dir, or for its parent, if that is the [Folder].
func ignore(dir string) error {
	for ; filepath.Base(dir) != Folder; dir = filepath.Dir(dir) {
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
	return AddGitignore(dir)
}
