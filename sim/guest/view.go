package guest

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// mount is a disk at a place in the tree.
type mount struct {
	at   string
	disk *Disk
}

// mountTable is what is mounted where. It may change under a view.
type mountTable struct{ p atomic.Pointer[[]mount] }

func mountedAt(m ...mount) *mountTable {
	t := &mountTable{}
	t.p.Store(&m)
	return t
}

func (t *mountTable) all() []mount { return *t.p.Load() }

// view is the file system as one user sees it: disks at their mount points,
// symbolic links followed, permissions obeyed.
type view struct {
	mounts  *mountTable // the longest mount point that fits counts
	user    *user       // nil is root
	umask   fs.FileMode
	changed func(name string) // told of every change; may be nil
}

// entry is a name in a directory.
type entry struct {
	name string
	node *inode
}

// entry is an fs.FileInfo, for the shell's tests.

func (e entry) Name() string       { return e.name }
func (e entry) Size() int64        { return int64(len(e.node.data)) }
func (e entry) Mode() fs.FileMode  { return e.node.mode }
func (e entry) ModTime() time.Time { return e.node.mtime }
func (e entry) IsDir() bool        { return e.node.mode.IsDir() }
func (e entry) Sys() any           { return nil }

// at returns the disk that holds a clean absolute path, and the path in it.
func (v *view) at(name string) (*Disk, string) {
	all := v.mounts.all()
	best := all[0]
	for _, m := range all[1:] {
		if len(m.at) > len(best.at) && (name == m.at || strings.HasPrefix(name, m.at+"/")) {
			best = m
		}
	}
	if best.at == "/" {
		return best.disk, name
	}
	return best.disk, "/" + strings.TrimPrefix(name[len(best.at):], "/")
}

func (v *view) raw(name string) *inode {
	d, p := v.at(name)
	return d.lookup(p)
}

// maxLinks is how many symbolic links Linux follows before ELOOP.
const maxLinks = 40

// resolve returns the path with every link followed; the last part only when
// follow is set. The last part need not exist.
func (v *view) resolve(name string, follow bool) (string, error) {
	rest := split(path.Clean("/" + name))
	done := "/"
	links := 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			done = path.Dir(done)
			continue
		}
		if !v.root() && !v.may(v.raw(done), 1) {
			return "", syscall.EACCES
		}
		next := strings.TrimSuffix(done, "/") + "/" + part
		n := v.raw(next)
		switch {
		case n == nil && len(rest) > 0:
			return "", syscall.ENOENT
		case n == nil:
			return next, nil
		case n.mode&fs.ModeSymlink != 0 && (follow || len(rest) > 0):
			if links++; links > maxLinks {
				return "", syscall.ELOOP
			}
			target := string(n.data)
			if strings.HasPrefix(target, "/") {
				done = "/"
			}
			rest = append(linkParts(target), rest...)
			continue
		case len(rest) > 0 && !n.mode.IsDir():
			return "", syscall.ENOTDIR
		}
		done = next
	}
	return done, nil
}

// linkParts splits a link's target without folding its "..", which may cross
// further links.
func linkParts(target string) []string {
	return slices.DeleteFunc(strings.Split(target, "/"), func(s string) bool { return s == "" || s == "." })
}

// root reports whether the user may do anything.
func (v *view) root() bool { return v.user == nil || v.user.uid == 0 }

// may reports whether the user may read (4), write (2) or execute or search (1).
func (v *view) may(n *inode, want fs.FileMode) bool {
	if n == nil || v.root() {
		return true
	}
	perm := n.mode.Perm()
	switch {
	case n.uid == v.user.uid:
		perm >>= 6
	case n.gid == v.user.gid || slices.Contains(v.user.gids, n.gid):
		perm >>= 3
	}
	return perm&want == want
}

func fail(op, name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (v *view) find(op, name string, follow bool) (string, *inode, error) {
	p, err := v.resolve(name, follow)
	if err != nil {
		return "", nil, fail(op, name, err)
	}
	n := v.raw(p)
	if n == nil {
		return p, nil, fail(op, name, syscall.ENOENT)
	}
	return p, n, nil
}

func (v *view) stat(name string) (entry, error) {
	p, n, err := v.find("stat", name, true)
	return entry{path.Base(p), n}, err
}

func (v *view) lstat(name string) (entry, error) {
	p, n, err := v.find("lstat", name, false)
	return entry{path.Base(p), n}, err
}

func (v *view) readFile(name string) ([]byte, error) {
	_, n, err := v.find("open", name, true)
	switch {
	case err != nil:
		return nil, err
	case n.mode.IsDir():
		return nil, fail("read", name, syscall.EISDIR)
	case !v.may(n, 4):
		return nil, fail("open", name, syscall.EACCES)
	}
	return n.data, nil
}

func (v *view) readDir(name string) ([]entry, error) {
	p, n, err := v.find("open", name, true)
	switch {
	case err != nil:
		return nil, err
	case !n.mode.IsDir():
		return nil, fail("readdir", name, syscall.ENOTDIR)
	case !v.may(n, 4):
		return nil, fail("open", name, syscall.EACCES)
	}
	d, in := v.at(p)
	if in != "/" {
		return d.list(in), nil
	}
	// What says that a disk has a file system is not a file of it.
	return slices.DeleteFunc(d.list(in), func(e entry) bool { return "/"+e.name == fsMark }), nil
}

// chmod and chown follow links.
