package disk

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// Mount is a disk at a place in the tree.
type Mount struct {
	At   string
	Disk *Disk
}

// Mounts is what is mounted where. It may change under a view.
type Mounts struct{ p atomic.Pointer[[]Mount] }

// NewMounts returns a table of mounts.
func NewMounts(m ...Mount) *Mounts {
	t := &Mounts{}
	t.p.Store(&m)
	return t
}

// Set changes what is mounted.
func (t *Mounts) Set(all []Mount) { t.p.Store(&all) }

func (t *Mounts) all() []Mount { return *t.p.Load() }

// View is the file system as one user sees it: disks at their mount points,
// symbolic links followed, permissions obeyed.
type View struct {
	Mounts  *Mounts // the longest mount point that fits counts
	User    *User   // nil is root
	Umask   fs.FileMode
	Changed func(name string) // called for every change; may be nil
}

// AsRoot is the same for the system itself; its changes are not told.
func (v *View) AsRoot() *View { return &View{Mounts: v.Mounts} }

// Entry is a name in a directory.
type Entry struct {
	name string
	node *inode
}

// Entry is an fs.FileInfo, for the shell's tests.

func (e Entry) Name() string       { return e.name }
func (e Entry) Size() int64        { return int64(len(e.node.data)) }
func (e Entry) Mode() fs.FileMode  { return e.node.mode }
func (e Entry) ModTime() time.Time { return e.node.mtime }
func (e Entry) IsDir() bool        { return e.node.mode.IsDir() }
func (e Entry) Sys() any           { return nil }

// Target is where a symbolic link leads.
func (e Entry) Target() string { return string(e.node.data) }

// UID is the number of its owner.
func (e Entry) UID() int { return e.node.uid }

// GID is the number of its group.
func (e Entry) GID() int { return e.node.gid }

// As is the same file under another name.
func (e Entry) As(name string) Entry { return Entry{name, e.node} }

// diskAt returns the disk that holds a clean absolute path, and the path in it.
func (v *View) diskAt(name string) (*Disk, string) {
	all := v.Mounts.all()
	best := all[0]
	for _, m := range all[1:] {
		if len(m.At) > len(best.At) && (name == m.At || strings.HasPrefix(name, m.At+"/")) {
			best = m
		}
	}
	if best.At == "/" {
		return best.Disk, name
	}
	return best.Disk, "/" + strings.TrimPrefix(name[len(best.At):], "/")
}

func (v *View) raw(name string) *inode {
	d, p := v.diskAt(name)
	return d.lookup(p)
}

// Mark is what formats a data disk: mkfs leaves it, and a mount looks for it.
// Partition tables are not simulated.
const Mark = "/.pvesim-filesystem"

// maxLinks is how many symbolic links Linux follows before ELOOP.
const maxLinks = 40

// Resolve returns the path with every link followed; the last part only when
// follow is set. The last part need not exist.
func (v *View) Resolve(name string, follow bool) (string, error) {
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
		if !v.root() && !v.allows(v.raw(done), 1) {
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
func (v *View) root() bool { return v.User == nil || v.User.UID == 0 }

// May reports whether the user may read (4), write (2) or execute or search (1).
func (v *View) May(e Entry, want fs.FileMode) bool { return v.allows(e.node, want) }

func (v *View) allows(n *inode, want fs.FileMode) bool {
	if n == nil || v.root() {
		return true
	}
	perm := n.mode.Perm()
	switch {
	case n.uid == v.User.UID:
		perm >>= 6
	case n.gid == v.User.GID || slices.Contains(v.User.GIDs, n.gid):
		perm >>= 3
	}
	return perm&want == want
}

// PathError is an error of the file system, as package os words it.
func PathError(op, name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (v *View) find(op, name string, follow bool) (string, *inode, error) {
	p, err := v.Resolve(name, follow)
	if err != nil {
		return "", nil, PathError(op, name, err)
	}
	n := v.raw(p)
	if n == nil {
		return p, nil, PathError(op, name, syscall.ENOENT)
	}
	return p, n, nil
}

// Stat returns what is there, behind all links.
func (v *View) Stat(name string) (Entry, error) {
	p, n, err := v.find("stat", name, true)
	return Entry{path.Base(p), n}, err
}

// Lstat returns what is there, a link itself.
func (v *View) Lstat(name string) (Entry, error) {
	p, n, err := v.find("lstat", name, false)
	return Entry{path.Base(p), n}, err
}

// ReadFile returns a file's content, which must not be changed.
func (v *View) ReadFile(name string) ([]byte, error) {
	_, n, err := v.find("open", name, true)
	switch {
	case err != nil:
		return nil, err
	case n.mode.IsDir():
		return nil, PathError("read", name, syscall.EISDIR)
	case !v.allows(n, 4):
		return nil, PathError("open", name, syscall.EACCES)
	}
	return n.data, nil
}

// Image is what the kernel reads of a program, also for a user who may not read it.
func (v *View) Image(name string) []byte {
	_, n, err := v.find("open", name, true)
	if err != nil {
		return nil
	}
	return n.data
}

// ReadDir lists a directory by name.
func (v *View) ReadDir(name string) ([]Entry, error) {
	p, n, err := v.find("open", name, true)
	switch {
	case err != nil:
		return nil, err
	case !n.mode.IsDir():
		return nil, PathError("readdir", name, syscall.ENOTDIR)
	case !v.allows(n, 4):
		return nil, PathError("open", name, syscall.EACCES)
	}
	d, in := v.diskAt(p)
	if in != "/" {
		return d.list(in), nil
	}
	// What says that a disk has a file system is not a file of it.
	return slices.DeleteFunc(d.list(in), func(e Entry) bool { return "/"+e.name == Mark }), nil
}

// Strerror is an error in the words of the C library.
func Strerror(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		text := errno.Error()
		r, n := utf8.DecodeRuneInString(text)
		return string(unicode.ToUpper(r)) + text[n:]
	}
	return err.Error()
}
