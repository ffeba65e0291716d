package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/cps-gpu/homelab/converge"
)

// Tree is a folder: the contents of its files by their paths, which are relative, with
// slashes.
type Tree map[string][]byte

// ListFile lists our files of a folder, each with its digest when we wrote it, in the format
// of sha256sum. Fleet reads no hidden files. It is not in .homelab, the folder of keys beside
// a cluster's file, because .gitignore excludes that.
const ListFile = ".homelab-files"

// Names returns the paths, sorted.
func (t Tree) Names() []string { return slices.Sorted(maps.Keys(t)) }

// list writes [ListFile].
func (t Tree) list() []byte {
	var b strings.Builder
	for _, name := range t.Names() {
		if name != ListFile {
			fmt.Fprintf(&b, "%s  %s\n", digest(t[name]), name)
		}
	}
	return []byte(b.String())
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// parseList reads [ListFile]: the digests by path.
func parseList(content []byte) (map[string]string, error) {
	out := map[string]string{}
	for line := range strings.Lines(string(content)) {
		sum, name, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "  ")
		if !ok || len(sum) != sha256.Size*2 || !fs.ValidPath(name) || name == "." {
			return nil, fmt.Errorf("%s: %q is not a line of sha256sum: the list of our files was changed by hand; "+
				"restore the file (git log -- %s)", ListFile, strings.TrimSpace(line), ListFile)
		}
		out[name] = sum
	}
	return out, nil
}

// Kinds of changes of a file.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
)

// Change is a file to write or remove.
type Change struct {
	Path       string
	What       string // Added, Changed or Removed
	Have, Want []byte
}

// ForeignFile is a file that somebody else changed or created.
type ForeignFile struct {
	Path   string
	Reason string // e.g. "changed by hand"
}

// ForeignError says that somebody changed one of our files, or created a file at the path of
// one. Nothing was written.
type ForeignError struct {
	Where string // the folder, or the repository and branch
	Files []ForeignFile
}

// Error names every file.
func (e *ForeignError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: nothing was written, because somebody else changed files that this would overwrite:", e.Where)
	for _, f := range e.Files {
		fmt.Fprintf(&b, "\n  %s: %s", f.Path, f.Reason)
	}
	b.WriteString("\nMove the changes you want to cluster.yaml and restore the files, or overwrite them with -force")
	return b.String()
}

// merge computes the changes from have, the present folder, to want. Files that are not on our
// list stay. A file on it that somebody changed, or one at the path of ours, is foreign, and
// not among the changes.
func merge(have, want Tree) (changes []Change, foreign []ForeignFile, err error) {
	ours, err := parseList(have[ListFile])
	if err != nil {
		return nil, nil, err
	}
	names := map[string]bool{}
	for name := range want {
		names[name] = true
	}
	for name := range ours {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := Change{Path: name, Have: have[name], Want: want[name]}
		_, is := have[name]
		_, should := want[name]
		sum, was := ours[name]
		switch {
		case name == ListFile && string(c.Have) == string(c.Want), is && should && string(c.Have) == string(c.Want), !is && !should:
			continue
		case name == ListFile:
		case is && !was:
			foreign = append(foreign, ForeignFile{name, "it was not written by homelab"})
			continue
		case is && digest(c.Have) != sum:
			foreign = append(foreign, ForeignFile{name, "changed by hand"})
			continue
		case !is && was:
			foreign = append(foreign, ForeignFile{name, "removed by hand"})
			continue
		}
		c.What = changeText(is, should)
		changes = append(changes, c)
	}
	for name := range want {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, file := have[dir]; file && want[dir] == nil {
				foreign = append(foreign, ForeignFile{dir, "it is a file where homelab has a folder"})
			}
		}
	}
	slices.SortFunc(foreign, func(a, b ForeignFile) int { return strings.Compare(a.Path, b.Path) })
	return changes, slices.Compact(foreign), nil
}

func changeText(is, should bool) string {
	switch {
	case !is:
		return Added
	case !should:
		return Removed
	}
	return Changed
}

// diffOf returns changes as differences.
func diffOf(changes []Change) converge.Diff {
	var out converge.Diff
	for _, c := range changes {
		f := converge.Field{Path: c.Path, Want: c.What, Effect: converge.Update}
		switch c.What {
		case Added:
			f.Effect = converge.Create
		case Removed:
			f.Have, f.Want, f.Effect = "there", "", converge.Remove
		}
		out = append(out, f)
	}
	return out
}

// addForced adds the changes that foreign files block: what -force does.
func addForced(have, want Tree, foreign []ForeignFile) []Change {
	var out []Change
	for _, f := range foreign {
		c := Change{Path: f.Path, Have: have[f.Path], Want: want[f.Path]}
		_, is := have[f.Path]
		_, should := want[f.Path]
		if is || should {
			c.What = changeText(is, should)
			out = append(out, c)
		}
	}
	return out
}

// FS returns the tree as a file system, for example for a linter.
func (t Tree) FS() fs.FS {
	out := fstest.MapFS{}
	for name, content := range t {
		out[name] = &fstest.MapFile{Data: content, Mode: 0o644}
	}
	return out
}
