package fleet

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// gitFolder reads a folder of a commit. Anything but a plain file, such as a link, has no
// content, because we did not write it.
func gitFolder(c *object.Commit, folder string) (Tree, plumbing.Hash, error) {
	root, err := c.Tree()
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	if folder != "" {
		entry, err := root.FindEntry(folder)
		switch {
		case errors.Is(err, object.ErrEntryNotFound), errors.Is(err, object.ErrDirectoryNotFound):
			return Tree{}, plumbing.ZeroHash, nil
		case err != nil:
			return nil, plumbing.ZeroHash, err
		case entry.Mode != filemode.Dir:
			return nil, plumbing.ZeroHash, fmt.Errorf("%s is not a folder in the repository", folder)
		}
		if root, err = root.Tree(folder); err != nil {
			return nil, plumbing.ZeroHash, err
		}
	}
	out := Tree{}
	walker := object.NewTreeWalker(root, true, nil)
	defer walker.Close()
	for {
		name, entry, err := walker.Next()
		if errors.Is(err, io.EOF) {
			return out, root.Hash, nil
		}
		if err != nil {
			return nil, plumbing.ZeroHash, err
		}
		switch entry.Mode {
		case filemode.Dir:
		case filemode.Regular, filemode.Executable, filemode.Deprecated:
			if out[name], err = blob(root, &entry); err != nil {
				return nil, plumbing.ZeroHash, err
			}
		default:
			out[name] = nil
		}
	}
}

func blob(t *object.Tree, entry *object.TreeEntry) ([]byte, error) {
	f, err := t.TreeEntryFile(entry)
	if err != nil {
		return nil, err
	}
	r, err := f.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}

// commit creates a commit of changes below folder, on top of the observed one, and returns it
// with every object that the server lacks.
func commit(s *Repo, folder string, changes []Change, message string, who object.Signature) (plumbing.Hash, []plumbing.Hash, error) {
	g := treeBuilder{store: s.store}
	var root plumbing.Hash
	var parents []plumbing.Hash
	if s.parent != nil {
		root, parents = s.parent.TreeHash, []plumbing.Hash{s.parent.Hash}
	}
	leaves := map[string]Change{}
	for _, c := range changes {
		leaves[path.Join(folder, c.Path)] = c
	}
	root, err := g.graft(root, leaves)
	if err != nil {
		return plumbing.ZeroHash, nil, err
	}
	if root.IsZero() { // everything was removed, and the tree is empty
		if root, err = g.storeObject(&object.Tree{}); err != nil {
			return plumbing.ZeroHash, nil, err
		}
	}
	hash, err := g.storeObject(&object.Commit{Author: who, Committer: who, Message: message, TreeHash: root, ParentHashes: parents})
	return hash, g.made, err
}

// treeBuilder builds new trees from old ones.
type treeBuilder struct {
	store *memory.Storage
	made  []plumbing.Hash
}

func (g *treeBuilder) storeObject(o interface {
	Encode(plumbing.EncodedObject) error
}) (plumbing.Hash, error) {
	e := g.store.NewEncodedObject()
	if err := o.Encode(e); err != nil {
		return plumbing.ZeroHash, err
	}
	return g.storeEncoded(e)
}

func (g *treeBuilder) storeEncoded(e plumbing.EncodedObject) (plumbing.Hash, error) {
	hash, err := g.store.SetEncodedObject(e)
	if err == nil && !slices.Contains(g.made, hash) {
		g.made = append(g.made, hash)
	}
	return hash, err
}

// graft returns old with the changes at the paths below it; zero if the tree is empty.
func (g *treeBuilder) graft(old plumbing.Hash, leaves map[string]Change) (plumbing.Hash, error) {
	entries := map[string]object.TreeEntry{}
	if !old.IsZero() {
		t, err := object.GetTree(g.store, old)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		for _, e := range t.Entries {
			entries[e.Name] = e
		}
	}
	below := map[string]map[string]Change{}
	for name, c := range leaves {
		dir, rest, deep := strings.Cut(name, "/")
		switch {
		case deep:
			if below[dir] == nil {
				below[dir] = map[string]Change{}
			}
			below[dir][rest] = c
		case c.What == Removed:
			delete(entries, name)
		default:
			e := g.store.NewEncodedObject()
			e.SetType(plumbing.BlobObject)
			w, err := e.Writer()
			if err == nil {
				_, err = w.Write(c.Want)
			}
			if err != nil {
				return plumbing.ZeroHash, err
			}
			hash, err := g.storeEncoded(e)
			if err != nil {
				return plumbing.ZeroHash, err
			}
			entries[name] = object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: hash}
		}
	}
	for dir, leaves := range below {
		var from plumbing.Hash
		if e, ok := entries[dir]; ok && e.Mode == filemode.Dir {
			from = e.Hash
		}
		hash, err := g.graft(from, leaves)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		delete(entries, dir)
		if !hash.IsZero() {
			entries[dir] = object.TreeEntry{Name: dir, Mode: filemode.Dir, Hash: hash}
		}
	}
	if len(entries) == 0 {
		return plumbing.ZeroHash, nil
	}
	t := &object.Tree{}
	for _, e := range entries {
		t.Entries = append(t.Entries, e)
	}
	sort.Sort(object.TreeEntrySorter(t.Entries))
	return g.storeObject(t)
}
