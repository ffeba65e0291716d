package machine

import (
	"io/fs"
	"path"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// ViewAs is the file system for a user; nil is the system itself.
func (s *System) ViewAs(u *disk.User, changed func(string)) *disk.View {
	v := &disk.View{Mounts: s.table, User: u, Umask: 0o022}
	if changed != nil {
		v.Changed = func(name string) {
			for _, m := range s.volatile {
				if strings.HasPrefix(name, m.At+"/") {
					return
				}
			}
			changed("file " + name)
			s.watches.Range(func(dir, f any) bool {
				if strings.HasPrefix(name, dir.(string)+"/") {
					f.(func())()
				}
				return true
			})
		}
	}
	return v
}

// Watch calls f after each change that a command makes below a folder.
func (s *System) Watch(dir string, f func()) { s.watches.Store(dir, f) }

// Root is the file system for the system itself.
func (s *System) Root() *disk.View { return s.ViewAs(nil, nil) }

// Put writes a file of the system's own, such as one in /proc.
func (s *System) Put(name, text string, perm fs.FileMode) {
	v := s.Root()
	if err := v.MkdirAll(path.Dir(name), 0o755); err != nil {
		return
	}
	_ = v.WriteFile(name, []byte(text), perm) // fails only where a script has put a directory
}
