package guest

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

func (v *view) note(name string) {
	if v.changed != nil {
		v.changed(name)
	}
}

func (v *view) ids() (uid, gid int) {
	if v.user == nil {
		return 0, 0
	}
	return v.user.uid, v.user.gid
}

// mayChange checks the directory that holds p.
func (v *view) mayChange(op, p, name string) error {
	dir := v.raw(path.Dir(p))
	switch {
	case dir == nil:
		return fail(op, name, syscall.ENOENT)
	case !dir.mode.IsDir():
		return fail(op, name, syscall.ENOTDIR)
	case !v.may(dir, 3):
		return fail(op, name, syscall.EACCES)
	}
	if n := v.raw(p); n != nil && dir.mode&fs.ModeSticky != 0 && v.user != nil && v.user.uid != 0 && n.uid != v.user.uid {
		return fail(op, name, syscall.EPERM)
	}
	return nil
}

// create puts a new inode at p, the resolved form of name.
func (v *view) create(op, p, name string, n *inode) error {
	if err := v.mayChange(op, p, name); err != nil {
		return err
	}
	n.uid, n.gid = v.ids()
	d, in := v.at(p)
	if err := d.set(in, n); err != nil {
		return fail(op, name, err)
	}
	v.note(p)
	return nil
}

// open checks that a file may be written, makes it when it is not there, and
// empties it when asked. It returns the resolved path.
func (v *view) open(name string, perm fs.FileMode, truncate bool) (string, error) {
	p, err := v.resolve(name, true)
	if err != nil {
		return "", fail("open", name, err)
	}
	n := v.raw(p)
	switch {
	case n == nil:
		return p, v.create("open", p, name, &inode{mode: perm.Perm() &^ v.umask})
	case n.mode.IsDir():
		return "", fail("open", name, syscall.EISDIR)
	case !v.may(n, 2):
		return "", fail("open", name, syscall.EACCES)
	case n.mode&fs.ModeDevice != 0 || !truncate:
		return p, nil
	}
	return p, v.edit("open", p, func(n *inode) { n.data = nil })
}

func (v *view) edit(op, p string, f func(n *inode)) error {
	d, in := v.at(p)
	if err := d.edit(in, func(n *inode) { f(n); n.mtime = time.Now() }); err != nil {
		return fail(op, p, err)
	}
	v.note(p)
	return nil
}

// writeFile makes or overwrites a file. The mode of one that exists stays.
func (v *view) writeFile(name string, data []byte, perm fs.FileMode) error {
	p, err := v.open(name, perm, false)
	if err != nil {
		return err
	}
	if v.raw(p).mode&fs.ModeDevice != 0 {
		return nil
	}
	return v.edit("write", p, func(n *inode) { n.data = bytes.Clone(data) })
}

// append adds data to the file at a resolved path.
func (v *view) append(p string, data []byte) error {
	n := v.raw(p)
	if n == nil {
		return fail("write", p, syscall.ENOENT)
	}
	if n.mode&fs.ModeDevice != 0 {
		if path.Base(p) == "full" {
			return fail("write", p, syscall.ENOSPC)
		}
		return nil
	}
	return v.edit("write", p, func(n *inode) { n.data = append(n.data, data...) })
}

func (v *view) mkdir(name string, perm fs.FileMode) error {
	p, err := v.resolve(name, true)
	if err != nil {
		return fail("mkdir", name, err)
	}
	if v.raw(p) != nil {
		return fail("mkdir", name, syscall.EEXIST)
	}
	return v.create("mkdir", p, name, &inode{mode: fs.ModeDir | perm.Perm()&^v.umask})
}

func (v *view) mkdirAll(name string, perm fs.FileMode) error {
	done := "/"
	for _, part := range split(path.Clean("/" + name)) {
		done = path.Join(done, part)
		if e, err := v.stat(done); err == nil {
			if !e.IsDir() {
				return fail("mkdir", done, syscall.ENOTDIR)
			}
			continue
		}
		if err := v.mkdir(done, perm); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a file, a link or an empty directory.
func (v *view) remove(name string) error {
	p, n, err := v.find("unlink", name, false)
	if err != nil {
		return err
	}
	if d, in := v.at(p); n.mode.IsDir() && len(d.list(in)) > 0 {
		return fail("rmdir", name, syscall.ENOTEMPTY)
	}
	return v.removeAll(p)
}

// removeAll removes whatever is at name.
func (v *view) removeAll(name string) error {
	p, _, err := v.find("unlink", name, false)
	if err != nil {
		return err
	}
	if err := v.mayChange("unlink", p, name); err != nil {
		return err
	}
	if slices.ContainsFunc(v.mounts.all(), func(m mount) bool { return m.at == p }) {
		return fail("unlink", name, syscall.EBUSY)
	}
	d, in := v.at(p)
	if err := d.change(in, func(dir *inode, base string) error { delete(dir.kids, base); return nil }); err != nil {
		return fail("unlink", name, err)
	}
	v.note(p)
	return nil
}

// removeTree is rm -r: it goes on after what it cannot remove, so that the folders
// of mount points stay, with nothing in them.
func (v *view) removeTree(name string) error {
	p, n, err := v.find("unlink", name, false)
	if err != nil {
		return err
	}
	mounted := slices.ContainsFunc(v.mounts.all(), func(m mount) bool { return m.at == p || strings.HasPrefix(m.at, p+"/") })
	if !n.mode.IsDir() || !mounted {
		return v.removeAll(name)
	}
	entries, err := v.readDir(p)
	for _, e := range entries {
		err = errors.Join(err, v.removeTree(path.Join(p, e.name)))
	}
	if err != nil {
		return err
	}
	return v.removeAll(p)
}

func (v *view) symlink(target, name string) error {
	p, err := v.resolve(name, false)
	if err != nil {
		return fail("symlink", name, err)
	}
	if v.raw(p) != nil {
		return fail("symlink", name, syscall.EEXIST)
	}
	return v.create("symlink", p, name, &inode{mode: fs.ModeSymlink | 0o777, data: []byte(target)})
}

// rename moves a file or directory to exactly the place to.
func (v *view) rename(from, to string) error {
	p, n, err := v.find("rename", from, false)
	if err != nil {
		return err
	}
	q, err := v.resolve(to, false)
	if err != nil {
		return fail("rename", to, err)
	}
	if err := errors.Join(v.mayChange("rename", p, from), v.mayChange("rename", q, to)); err != nil {
		return err
	}
	if p == q {
		return nil
	}
	if old := v.raw(q); old != nil && old.mode.IsDir() != n.mode.IsDir() {
		return fail("rename", to, map[bool]error{true: syscall.EISDIR, false: syscall.ENOTDIR}[old.mode.IsDir()])
	}
	d, in := v.at(q)
	moved := *n
	if err := d.set(in, d.adopt(&moved)); err != nil {
		return fail("rename", to, err)
	}
	v.note(q)
	d, in = v.at(p)
	if err := d.change(in, func(dir *inode, base string) error { delete(dir.kids, base); return nil }); err != nil {
		return fail("rename", from, err)
	}
	v.note(p)
	return nil
}

func (v *view) chmod(name string, perm fs.FileMode) error {
	return v.attribute("chmod", name, func(n *inode) { n.mode = n.mode&^(fs.ModePerm|fs.ModeSticky|fs.ModeSetuid|fs.ModeSetgid) | perm })
}

func (v *view) chown(name string, uid, gid int) error {
	if v.user != nil && v.user.uid != 0 {
		return fail("chown", name, syscall.EPERM)
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

func (v *view) attribute(op, name string, f func(n *inode)) error {
	p, n, err := v.find(op, name, true)
	if err != nil {
		return err
	}
	if v.user != nil && v.user.uid != 0 && n.uid != v.user.uid {
		return fail(op, name, syscall.EPERM)
	}
	before := *n
	after := before
	f(&after)
	if before.mode == after.mode && before.uid == after.uid && before.gid == after.gid {
		return nil // like the kernel's, a change to what is there already; no mutation
	}
	d, in := v.at(p)
	if err := d.edit(in, f); err != nil {
		return fail(op, name, err)
	}
	v.note(p)
	return nil
}
