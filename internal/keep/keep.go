package keep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/internal/printable"
)

// WriteFile replaces the file path with data and the mode perm. A missing folder is created with
// mode 0700.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	f, err := Reserve(path, perm)
	if err != nil {
		return err
	}
	return f.Commit(data)
}

// Reservation reserves the place of a file. The file appears with [Reservation.Commit].
type Reservation struct {
	path string
	perm fs.FileMode
	temp *os.File
}

// Reserve makes sure that a file can be written at path, before its data exists. The caller ends
// with [Reservation.Commit] or [Reservation.Discard].
func Reserve(path string, perm fs.FileMode) (*Reservation, error) {
	dir := filepath.Dir(path)
	if err := CheckNoSymlink(dir); err != nil { // before a folder is made there
		return nil, fmt.Errorf("%s is not written: %w", path, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the folder of %s: %w", path, err)
	}
	if err := Check(path, perm); err != nil {
		return nil, err
	}
	if err := ignore(dir); err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600, and no link is followed
	if err != nil {
		return nil, fmt.Errorf("%s is not written: %w", path, err)
	}
	return &Reservation{path: path, perm: perm, temp: temp}, nil
}

// Check checks, as far as possible without writing, whether a file can be written at path. A
// missing folder will be ours.
func Check(path string, perm fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := CheckNoSymlink(dir); err != nil {
		return fmt.Errorf("%s is not written: %w", path, err)
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := folder(dir, perm&0o077 == 0); err != nil {
		return fmt.Errorf("%s is not written: %w", path, err)
	}
	if err := replaceable(path); err != nil {
		return fmt.Errorf("%s is not written: %w", path, err)
	}
	return nil
}

// Commit writes data to the file, and makes sure that it is on the disk.
func (f *Reservation) Commit(data []byte) error {
	return f.commit(data, os.Rename, "the old contents stay")
}

// CommitNew is Commit for a file that must not exist: if another process made it meanwhile, that stays, and
// the error is fs.ErrExist.
func (f *Reservation) CommitNew(data []byte) error {
	return f.commit(data, func(temp, path string) error {
		return errors.Join(os.Link(temp, path), os.Remove(temp))
	}, "nothing was replaced")
}

func (f *Reservation) commit(data []byte, place func(temp, path string) error, otherwise string) error {
	_, err := f.temp.Write(data)
	err = errors.Join(err, f.temp.Chmod(f.perm), f.temp.Sync(), f.temp.Close())
	if err == nil {
		err = place(f.temp.Name(), f.path)
	}
	if err != nil {
		f.Discard()
		return fmt.Errorf("%s is not written, %s: %w", f.path, otherwise, err)
	}
	f.temp = nil
	return syncFolder(filepath.Dir(f.path))
}

// Discard changes nothing. After Commit it has no effect.
func (f *Reservation) Discard() {
	if f != nil && f.temp != nil {
		_ = f.temp.Close()
		_ = os.Remove(f.temp.Name())
		f.temp = nil
	}
}

// replaceable refuses to replace anything but a plain file. Through a link, another file would
// be created or overwritten.
func replaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		to, _ := os.Readlink(path)
		return fmt.Errorf("it is a symbolic link to %s: remove the link, or name the file itself", to)
	case !info.Mode().IsRegular():
		return fmt.Errorf("the name exists and is not a file (%s)", info.Mode().Type())
	}
	return nil
}

// folder refuses a folder in which another user could replace our file. The sticky bit, which
// /tmp has, prevents that.
func folder(dir string, secret bool) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if secret && owner(info) != root {
			to, _ := os.Readlink(dir)
			return fmt.Errorf("its folder is a symbolic link to %s: write that folder's own name, or remove the link", to)
		}
		if info, err = os.Stat(dir); err != nil {
			return err
		}
	}
	others, letter := fs.FileMode(0o002), "o"
	if secret {
		others, letter = 0o022, "go"
	}
	if info.Mode()&others != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("others may write in its folder (mode %04o), and could replace it: run chmod %s-w %s", info.Mode().Perm(), printable.Word(letter), printable.Word(dir))
	}
	if who := owner(info); secret && who != root && who != os.Geteuid() && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("its folder %s belongs to another user, who could replace it: use a folder of your own", dir)
	}
	return nil
}

// root is the owner of system folders.
const root = 0
