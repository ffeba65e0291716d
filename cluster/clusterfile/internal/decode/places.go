package decode

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/limit"
)

// Values that name files and other places.

// Path joins a relative path to the file's folder; ~/ is the home folder.
func (c *Checker) Path(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.Dir, p)
}

// Existing reports a missing file or folder, and returns its path.
func (c *Checker) Existing(at any, path string, folder bool) string {
	path = c.Path(path)
	info, err := os.Stat(path)
	switch {
	case path == "":
	case errors.Is(err, fs.ErrNotExist):
		c.Wrong(at, fmt.Sprintf("%s does not exist", path), "correct the path; relative ones start in the folder of this file")
	case err != nil:
		c.Wrong(at, fmt.Sprintf("%s cannot be read: %v", path, errors.Unwrap(err)), "correct the path, or let this user read it")
	case folder && !info.IsDir():
		c.Wrong(at, path+" is not a folder", "name the folder with the files")
	case !folder && !info.Mode().IsRegular():
		c.Wrong(at, path+" is not a file", "name a file")
	}
	return path
}

// IsURL checks a URL, without repeating it when it carries a password.
func (c *Checker) IsURL(at *string, schemes ...string) {
	if *at == "" {
		return
	}
	u, err := url.Parse(*at)
	switch {
	case err == nil && u.User != nil:
		c.Wrong(at, "this URL carries a login", "write it without one; passwords belong in files or the environment")
	case err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme):
		c.Wrong(at, "this is not a URL that can be used here", "write "+schemes[0]+"://host and the rest")
	}
}

// maxSource limits the size of files that the cluster file names.
const maxSource = 1 << 20

// Source reads a file that the cluster file names.
func (c *Checker) Source(at any, path string) (string, bool) {
	before := len(c.Problems)
	path = c.Existing(at, path, false)
	if len(c.Problems) > before {
		return "", false
	}
	b, err := limit.File(path, maxSource) // a mistake of the same place may have been told before
	switch {
	case errors.As(err, new(*limit.Error)):
		c.Wrong(at, path+" is larger than 1 MiB", "fetch it on the node instead; this goes into the seed of every node")
		return "", false
	case err != nil:
		c.Wrong(at, err.Error(), "make it readable")
		return "", false
	}
	return string(b), true
}

// Matches reports whether s has a pattern. It compiles at each call: the file is small and read once.
func Matches(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) }
