package disk

import (
	"io/fs"
	"path"
)

// Walk calls f for every regular file, in the order of their names, for tests.
func (d *Disk) Walk(f func(name string, perm fs.FileMode, data []byte)) { d.walk("/", f) }

func (d *Disk) walk(dir string, f func(name string, perm fs.FileMode, data []byte)) {
	for _, e := range d.list(dir) {
		switch name := path.Join(dir, e.name); {
		case e.node.mode.IsDir():
			d.walk(name, f)
		case e.node.mode.IsRegular():
			f(name, e.node.mode.Perm(), e.node.data)
		}
	}
}
