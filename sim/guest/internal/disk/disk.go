package disk

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Disk is an in-memory file system with what dpkg knows about it. Clones share
// everything that neither side has changed since. It is safe for concurrent use.
type Disk struct {
	mu    sync.RWMutex
	root  *inode
	epoch *epoch
	pkgs  map[string]Package // never changed in place: clones share it
}

// epoch marks inodes that a disk may change in place. A clone begins a new one
// on both sides, so that all older inodes belong to nobody.
type epoch struct{ _ byte }

type inode struct {
	epoch    *epoch
	mode     fs.FileMode // with its type bits
	uid, gid int
	mtime    time.Time
	data     []byte // a file's content or a link's target; never changed within its length
	kids     map[string]*inode
}

// New returns a disk with an empty file system.
func New() *Disk {
	e := &epoch{}
	return &Disk{epoch: e, root: &inode{epoch: e, mode: fs.ModeDir | 0o755, kids: map[string]*inode{}}, pkgs: map[string]Package{}}
}

// Clone returns a copy. It takes the same time for any size.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epoch = &epoch{}
	return &Disk{epoch: &epoch{}, root: d.root, pkgs: d.pkgs}
}

// ReadFile returns a file's content. Symbolic links are followed.
func (d *Disk) ReadFile(name string) ([]byte, error) {
	return ViewOf(d).ReadFile(name)
}

// WriteFile writes a file, with its parents.
func (d *Disk) WriteFile(name string, data []byte, perm fs.FileMode) error {
	v := ViewOf(d)
	if err := v.MkdirAll(path.Dir(path.Clean("/"+name)), 0o755); err != nil {
		return err
	}
	return v.WriteFile(name, data, perm)
}

// Mkdir makes a directory, with its parents.
func (d *Disk) Mkdir(name string, perm fs.FileMode) error {
	return ViewOf(d).MkdirAll(path.Clean("/"+name), perm)
}

// Remove removes a file.
func (d *Disk) Remove(name string) error { return ViewOf(d).Remove(path.Clean("/" + name)) }

// Exists reports whether there is a file or directory of that name.
func (d *Disk) Exists(name string) bool {
	_, err := ViewOf(d).Stat(name)
	return err == nil
}

// ViewOf is the disk alone, as root.
func ViewOf(d *Disk) *View { return &View{Mounts: NewMounts(Mount{"/", d})} }

func split(name string) []string {
	name = strings.Trim(name, "/")
	if name == "" {
		return nil
	}
	return strings.Split(name, "/")
}

// Replace gives the disk another's file system.
func Replace(d *Disk, by *Disk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.root, d.epoch = by.root, by.epoch
}

// lookup returns the inode at a clean path in which no link is followed.
func (d *Disk) lookup(name string) *inode {
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := d.root
	for part := range strings.SplitSeq(name, "/") {
		if part == "" {
			continue
		}
		if n = n.kids[part]; n == nil {
			return nil
		}
	}
	return n
}

// list returns the names in a directory, sorted, with their inodes.
func (d *Disk) list(name string) []Entry {
	n := d.lookup(name)
	if n == nil {
		return nil
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := make([]Entry, 0, len(n.kids))
	for _, k := range slices.Sorted(maps.Keys(n.kids)) {
		out = append(out, Entry{k, n.kids[k]})
	}
	return out
}

// own returns n, or a copy that may be changed.
func (d *Disk) own(n *inode) *inode {
	if n.epoch == d.epoch {
		return n
	}
	c := *n
	c.epoch, c.kids, c.data = d.epoch, maps.Clone(n.kids), slices.Clip(n.data)
	return &c
}

// change calls f with the directory that holds the clean path name, ready to be
// changed, and the last part of name.
func (d *Disk) change(name string, f func(dir *inode, base string) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts := split(name)
	if len(parts) == 0 {
		return syscall.EBUSY
	}
	d.root = d.own(d.root)
	dir := d.root
	for _, part := range parts[:len(parts)-1] {
		kid := dir.kids[part]
		switch {
		case kid == nil:
			return syscall.ENOENT
		case !kid.mode.IsDir():
			return syscall.ENOTDIR
		}
		kid = d.own(kid)
		dir.kids[part] = kid
		dir = kid
	}
	return f(dir, parts[len(parts)-1])
}

// set puts an inode at a clean path; a directory must be there to hold it.
func (d *Disk) set(name string, n *inode) error {
	return d.change(name, func(dir *inode, base string) error {
		if n.mode.IsDir() && n.kids == nil {
			n.kids = map[string]*inode{}
		}
		n.epoch = d.epoch
		n.mtime = time.Now()
		dir.kids[base] = n
		return nil
	})
}

// edit replaces the inode at a clean path by a changed copy.
func (d *Disk) edit(name string, f func(n *inode)) error {
	return d.change(name, func(dir *inode, base string) error {
		n := dir.kids[base]
		if n == nil {
			return syscall.ENOENT
		}
		// Always a copy: who looked n up may still be reading it.
		c := *n
		if n.epoch != d.epoch {
			c.epoch, c.kids, c.data = d.epoch, maps.Clone(n.kids), slices.Clip(n.data)
		}
		f(&c)
		dir.kids[base] = &c
		return nil
	})
}

// adopt returns n as an inode that no disk owns, so that its children are copied
// before they are changed.
func (d *Disk) adopt(n *inode) *inode {
	c := *n
	c.data = slices.Clip(n.data)
	if n.kids != nil {
		c.kids = make(map[string]*inode, len(n.kids))
		for k, kid := range n.kids {
			c.kids[k] = d.adopt(kid)
			c.kids[k].epoch = nil
		}
	}
	return &c
}
