package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

func (v *View) note(name string) {
	if v.Changed != nil {
		v.Changed(name)
	}
}

func (v *View) ids() (uid, gid int) {
	if v.User == nil {
		return 0, 0
	}
	return v.User.UID, v.User.GID
}

// mayChange checks the directory that holds p.
func (v *View) mayChange(op, p, name string) error {
	dir := v.raw(path.Dir(p))
	switch {
	case dir == nil:
		return PathError(op, name, syscall.ENOENT)
	case !dir.mode.IsDir():
		return PathError(op, name, syscall.ENOTDIR)
	case !v.allows(dir, 3):
		return PathError(op, name, syscall.EACCES)
	}
	if n := v.raw(p); n != nil && dir.mode&fs.ModeSticky != 0 && v.User != nil && v.User.UID != 0 && n.uid != v.User.UID {
		return PathError(op, name, syscall.EPERM)
	}
	return nil
}

// create puts a new inode at p, the resolved form of name.
func (v *View) create(op, p, name string, n *inode) error {
	if err := v.mayChange(op, p, name); err != nil {
		return err
	}
	n.uid, n.gid = v.ids()
	d, in := v.diskAt(p)
	if err := d.set(in, n); err != nil {
		return PathError(op, name, err)
	}
	v.note(p)
	return nil
}

// Open checks that a file may be written, makes it when it is not there, and
// empties it when asked. It returns the resolved path.
func (v *View) Open(name string, perm fs.FileMode, truncate bool) (string, error) {
	p, err := v.Resolve(name, true)
	if err != nil {
		return "", PathError("open", name, err)
	}
	n := v.raw(p)
	switch {
	case n == nil:
		return p, v.create("open", p, name, &inode{mode: perm.Perm() &^ v.Umask})
	case n.mode.IsDir():
		return "", PathError("open", name, syscall.EISDIR)
	case !v.allows(n, 2):
		return "", PathError("open", name, syscall.EACCES)
	case n.mode&fs.ModeDevice != 0 || !truncate:
		return p, nil
	}
	return p, v.edit("open", p, func(n *inode) { n.data = nil })
}

func (v *View) edit(op, p string, f func(n *inode)) error {
	d, in := v.diskAt(p)
	if err := d.edit(in, func(n *inode) { f(n); n.mtime = time.Now() }); err != nil {
		return PathError(op, p, err)
	}
	v.note(p)
	return nil
}

// WriteFile makes or overwrites a file. The mode of one that exists stays.
func (v *View) WriteFile(name string, data []byte, perm fs.FileMode) error {
	p, err := v.Open(name, perm, false)
	if err != nil {
		return err
	}
	if v.raw(p).mode&fs.ModeDevice != 0 {
		return nil
	}
	return v.edit("write", p, func(n *inode) { n.data = bytes.Clone(data) })
}

// Append adds data to the file at a resolved path.
func (v *View) Append(p string, data []byte) error {
	n := v.raw(p)
	if n == nil {
		return PathError("write", p, syscall.ENOENT)
	}
	if n.mode&fs.ModeDevice != 0 {
		if path.Base(p) == "full" {
			return PathError("write", p, syscall.ENOSPC)
		}
		return nil
	}
	return v.edit("write", p, func(n *inode) { n.data = append(n.data, data...) })
}

// Writer appends to the file at a resolved path.
func (v *View) Writer(p string) io.Writer { return fileWriter{v, p} }

type fileWriter struct {
	fs *View
	at string
}

func (f fileWriter) Write(data []byte) (int, error) {
	if err := f.fs.Append(f.at, data); err != nil {
		return 0, err
	}
	return len(data), nil
}

// Device makes a device at a clean path.
func (v *View) Device(name string, mode fs.FileMode) error {
	d, in := v.diskAt(name)
	return d.set(in, &inode{mode: fs.ModeDevice | mode})
}

// Save writes a file of a service's own, with exactly that mode. It fails only
// where somebody has put a directory, which the service would trip over later.
func (v *View) Save(name, text string, perm fs.FileMode) {
	if err := v.MkdirAll(path.Dir(name), 0o755); err != nil {
		return
	}
	if err := v.WriteFile(name, []byte(text), perm); err == nil {
		_ = v.Chmod(name, perm)
	}
}

// Mkdir makes a directory.
func (v *View) Mkdir(name string, perm fs.FileMode) error {
	p, err := v.Resolve(name, true)
	if err != nil {
		return PathError("mkdir", name, err)
	}
	if v.raw(p) != nil {
		return PathError("mkdir", name, syscall.EEXIST)
	}
	return v.create("mkdir", p, name, &inode{mode: fs.ModeDir | perm.Perm()&^v.Umask})
}

// MkdirAll makes a directory and those above it.
func (v *View) MkdirAll(name string, perm fs.FileMode) error {
	done := "/"
	for _, part := range split(path.Clean("/" + name)) {
		done = path.Join(done, part)
		if e, err := v.Stat(done); err == nil {
			if !e.IsDir() {
				return PathError("mkdir", done, syscall.ENOTDIR)
			}
			continue
		}
		if err := v.Mkdir(done, perm); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a file, a link or an empty directory.
func (v *View) Remove(name string) error {
	p, n, err := v.find("unlink", name, false)
	if err != nil {
		return err
	}
	if d, in := v.diskAt(p); n.mode.IsDir() && len(d.list(in)) > 0 {
		return PathError("rmdir", name, syscall.ENOTEMPTY)
	}
	return v.RemoveAll(p)
}

// RemoveAll removes whatever is at name.
func (v *View) RemoveAll(name string) error {
	p, _, err := v.find("unlink", name, false)
	if err != nil {
		return err
	}
	if err := v.mayChange("unlink", p, name); err != nil {
		return err
	}
	if slices.ContainsFunc(v.Mounts.all(), func(m Mount) bool { return m.At == p }) {
		return PathError("unlink", name, syscall.EBUSY)
	}
	d, in := v.diskAt(p)
	if err := d.change(in, func(dir *inode, base string) error { delete(dir.kids, base); return nil }); err != nil {
		return PathError("unlink", name, err)
	}
	v.note(p)
	return nil
}

// RemoveTree is rm -r: it goes on after what it cannot remove, so that the folders
// of mount points stay, with nothing in them.
func (v *View) RemoveTree(name string) error {
	p, n, err := v.find("unlink", name, false)
	if err != nil {
		return err
	}
	mounted := slices.ContainsFunc(v.Mounts.all(), func(m Mount) bool { return m.At == p || strings.HasPrefix(m.At, p+"/") })
	if !n.mode.IsDir() || !mounted {
		return v.RemoveAll(name)
	}
	entries, err := v.ReadDir(p)
	for _, e := range entries {
		err = errors.Join(err, v.RemoveTree(path.Join(p, e.name)))
	}
	if err != nil {
		return err
	}
	return v.RemoveAll(p)
}

// Symlink makes a link.
func (v *View) Symlink(target, name string) error {
	p, err := v.Resolve(name, false)
	if err != nil {
		return PathError("symlink", name, err)
	}
	if v.raw(p) != nil {
		return PathError("symlink", name, syscall.EEXIST)
	}
	return v.create("symlink", p, name, &inode{mode: fs.ModeSymlink | 0o777, data: []byte(target)})
}

// Rename moves a file or directory to exactly the place to.
func (v *View) Rename(from, to string) error {
	p, n, err := v.find("rename", from, false)
	if err != nil {
		return err
	}
	q, err := v.Resolve(to, false)
	if err != nil {
		return PathError("rename", to, err)
	}
	if err := errors.Join(v.mayChange("rename", p, from), v.mayChange("rename", q, to)); err != nil {
		return err
	}
	if p == q {
		return nil
	}
	if old := v.raw(q); old != nil && old.mode.IsDir() != n.mode.IsDir() {
		return PathError("rename", to, map[bool]error{true: syscall.EISDIR, false: syscall.ENOTDIR}[old.mode.IsDir()])
	}
	d, in := v.diskAt(q)
	moved := *n
	if err := d.set(in, d.adopt(&moved)); err != nil {
		return PathError("rename", to, err)
	}
	v.note(q)
	d, in = v.diskAt(p)
	if err := d.change(in, func(dir *inode, base string) error { delete(dir.kids, base); return nil }); err != nil {
		return PathError("rename", from, err)
	}
	v.note(p)
	return nil
}

// Chmod changes a mode. Like chown it follows links.
func (v *View) Chmod(name string, perm fs.FileMode) error {
	return v.attribute("chmod", name, func(n *inode) { n.mode = n.mode&^(fs.ModePerm|fs.ModeSticky|fs.ModeSetuid|fs.ModeSetgid) | perm })
}

// Chown changes an owner and a group; -1 leaves one alone.
func (v *View) Chown(name string, uid, gid int) error {
	if v.User != nil && v.User.UID != 0 {
		return PathError("chown", name, syscall.EPERM)
	}
	return v.attribute("chown", name, func(n *inode) {
		if uid >= 0 {
			n.uid = uid
		}
		if gid >= 0 {
			n.gid = gid
		}
	})
}

func (v *View) attribute(op, name string, f func(n *inode)) error {
	p, n, err := v.find(op, name, true)
	if err != nil {
		return err
	}
	if v.User != nil && v.User.UID != 0 && n.uid != v.User.UID {
		return PathError(op, name, syscall.EPERM)
	}
	before := *n
	after := before
	f(&after)
	if before.mode == after.mode && before.uid == after.uid && before.gid == after.gid {
		return nil // like the kernel's, a change to what is there already; no mutation
	}
	d, in := v.diskAt(p)
	if err := d.edit(in, f); err != nil {
		return PathError(op, name, err)
	}
	v.note(p)
	return nil
}

// UnixMode turns chmod's number into Go's mode bits.
func UnixMode(n uint64) fs.FileMode {
	mode := fs.FileMode(n & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n&bit != 0 {
			mode |= flag
		}
	}
	return mode
}
