//go:build unix

package keep

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// owner returns the numeric user that owns a file.
func owner(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return os.Geteuid()
}

// syncFolder makes sure that a file's new name is on the disk. Some file systems do not
// support that.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
