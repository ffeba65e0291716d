package lint

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
)

// lintFile is a file of a repository.
type lintFile struct {
	name string // from the root of the repository
	size int
	data []byte // nil if the file is longer than our limit
	link string // the target of a symbolic link

	docs []manifest.Doc
	bad  []manifest.Syntax
	read bool // docs and bad are read
}

// lintTree is a repository in memory.
type lintTree struct {
	files map[string]*lintFile
	dirs  map[string][]string // folder → names in it, sorted; folders end in "/"
}

// readTree reads a repository, without .git and without ignored files.
func readTree(fsys fs.FS) (*lintTree, error) {
	var ignored []gitignore.Pattern
	kept := trackedFiles(fsys)
	t := &lintTree{files: map[string]*lintFile{}, dirs: map[string][]string{".": nil}}
	total := 0
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			ignored, err = patterns(fsys, name, ignored)
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !kept[name] && gitignore.NewMatcher(ignored).Match(strings.Split(name, "/"), d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			if ignored, err = patterns(fsys, name, ignored); err != nil {
				return err
			}
			t.dirs[name] = nil
			t.dirs[path.Dir(name)] = append(t.dirs[path.Dir(name)], d.Name()+"/")
			return nil
		}
		f, err := readFile(fsys, name, d)
		if err != nil || f == nil {
			return err
		}
		if total += len(f.data); total > manifest.MaxTotal || len(t.files) >= manifest.MaxFiles {
			return fmt.Errorf("%s: the repository has more than %d files or %d MiB: name the folder that Fleet reads", name, manifest.MaxFiles, manifest.MaxTotal>>20)
		}
		t.files[name] = f
		t.dirs[path.Dir(name)] = append(t.dirs[path.Dir(name)], d.Name())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the repository: %w", err)
	}
	for _, names := range t.dirs { // in the order of a walk on disk, so without the slash
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/")) })
	}
	return t, nil
}

// trackedFiles returns the files that Git tracks, and their folders, if the repository is a clone:
// .gitignore does not apply to these.
func trackedFiles(fsys fs.FS) map[string]bool {
	out := map[string]bool{".": true}
	// A foreign clone may have anything there; opening a FIFO would block forever.
	if info, err := fs.Stat(fsys, ".git/index"); err != nil || !info.Mode().IsRegular() || info.Size() > manifest.MaxTotal {
		return out
	}
	f, err := fsys.Open(".git/index")
	if err != nil {
		return out
	}
	defer func() { _ = f.Close() }()
	var all index.Index
	if err := index.NewDecoder(io.LimitReader(f, manifest.MaxTotal)).Decode(&all); err != nil {
		return out
	}
	for _, e := range all.Entries {
		for name := e.Name; !out[name]; name = path.Dir(name) {
			out[name] = true
		}
	}
	return out
}

// lintMaxIgnored is how many patterns of .gitignore files are read: each file is compared with
// each.
const lintMaxIgnored = 1000

// patterns adds those of a folder's .gitignore to those of its parents, which have less weight
// (gitignore(5)).
func patterns(fsys fs.FS, dir string, above []gitignore.Pattern) ([]gitignore.Pattern, error) {
	info, err := fs.Stat(fsys, path.Join(dir, ".gitignore"))
	if err != nil || !info.Mode().IsRegular() || info.Size() > manifest.MaxFile {
		return above, nil //nolint:nilerr // without one nothing is ignored
	}
	text, err := fs.ReadFile(fsys, path.Join(dir, ".gitignore"))
	if err != nil {
		return above, err
	}
	var domain []string
	if dir != "." {
		domain = strings.Split(dir, "/")
	}
	for line := range strings.Lines(string(text)) {
		if len(above) >= lintMaxIgnored {
			break
		}
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			above = append(above, gitignore.ParsePattern(line, domain))
		}
	}
	return above, nil
}

func readFile(fsys fs.FS, name string, d fs.DirEntry) (*lintFile, error) {
	f := &lintFile{name: name}
	if d.Type()&fs.ModeSymlink != 0 {
		f.link, _ = fs.ReadLink(fsys, name)
		info, err := fs.Stat(fsys, name)
		if err != nil || !info.Mode().IsRegular() {
			return f, nil //nolint:nilerr // a link to a folder, or a broken one
		}
	} else if !d.Type().IsRegular() {
		return nil, nil
	}
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if f.size = int(info.Size()); info.Size() > manifest.MaxFile {
		return f, nil
	}
	f.data, err = fs.ReadFile(fsys, name)
	f.size = len(f.data)
	return f, err
}

func (t *lintTree) isDir(name string) bool {
	_, ok := t.dirs[path.Clean(name)]
	return ok
}

func (t *lintTree) exists(name string) bool {
	return t.isDir(name) || t.files[path.Clean(name)] != nil
}

// foldersUnder lists the folders in dir and below, dir first.
func (t *lintTree) foldersUnder(dir string) []string {
	out := []string{dir}
	for _, name := range t.dirs[dir] {
		if sub, ok := strings.CutSuffix(name, "/"); ok {
			out = append(out, t.foldersUnder(path.Join(dir, sub))...)
		}
	}
	return out
}

// options is the fleet.yaml of a folder, "" where it has none.
func (t *lintTree) options(dir string) string {
	for _, name := range []string{"fleet.yaml", "fleet.yml"} {
		if t.files[path.Join(dir, name)] != nil {
			return path.Join(dir, name)
		}
	}
	return ""
}

// hasLooseManifests says whether the folder, or one below it, has manifests and no fleet.yaml (fleet
// v0.16.1 internal/cmd/cli/apply/apply.go hasSubDirectoryWithResourcesAndWithoutFleetYaml).
func (t *lintTree) hasLooseManifests(dir string) bool {
	if t.options(dir) != "" {
		return false
	}
	for _, name := range t.dirs[dir] {
		if sub, ok := strings.CutSuffix(name, "/"); ok {
			if t.hasLooseManifests(path.Join(dir, sub)) {
				return true
			}
		} else if ext := path.Ext(name); ext == ".yaml" || ext == ".yml" {
			return true
		}
	}
	return false
}
