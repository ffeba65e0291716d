package helm

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/ignore"

	"github.com/cps-gpu/homelab/kube/chart"
)

// folder is a folder of charts. Helm's own loader follows links to any readable file; here a
// link may only lead to a place within the folder.
type folder struct{ root *os.Root }

// maxEntries is how many files and folders an unpacked chart may have. A circle of links ends
// after eight (package os), but may have multiplied the files by then.
const maxEntries = 10_000

// fromFolder reads a release's chart from Folder; nil where it has none.
func (s Source) fromFolder(r chart.Release) (*helmchart.Chart, error) {
	root, err := os.OpenRoot(s.Folder)
	if err != nil {
		return nil, fmt.Errorf("folder of charts: %w", err)
	}
	defer func() { _ = root.Close() }()
	f := folder{root}
	name, err := s.inFolder(f, r)
	if err != nil || name == "" {
		return nil, err
	}
	ch, err := f.load(name)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", f.path(name), err)
	}
	return s.checkChart(ch, f.path(name), r)
}

// inFolder returns the chart's name in Folder, or nothing.
func (s Source) inFolder(f folder, r chart.Release) (string, error) {
	bare := strings.TrimPrefix(r.Version, "v")
	for _, name := range []string{
		archive(r.Chart, r.Version), archive(r.Chart, bare), archive(r.Chart, "v"+bare),
		r.Chart + "-" + r.Version, r.Chart + "-" + bare, r.Chart,
	} {
		info, err := f.stat(name)
		if err == nil && info.IsDir() {
			_, err = f.stat(name + "/Chart.yaml")
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return name, err
	}
	if others := s.archives(r.Chart); s.AnyVersion && len(others) > 0 {
		return filepath.Base(others[len(others)-1]), nil
	}
	return "", nil
}

// archives returns Folder's archives of a chart, by name.
func (s Source) archives(name string) []string {
	all, _ := filepath.Glob(filepath.Join(s.Folder, name+"-*.tgz"))
	return slices.DeleteFunc(all, func(file string) bool {
		rest := strings.TrimPrefix(strings.TrimPrefix(filepath.Base(file), name+"-"), "v")
		return rest == "" || rest[0] < '0' || rest[0] > '9' // another chart whose name begins so
	})
}

// offer lists what Folder has of a chart.
func (s Source) offer(name string) string {
	others := s.archives(name)
	for i, file := range others {
		others[i] = filepath.Base(file)
	}
	if len(others) == 0 {
		return "no chart of this name"
	}
	return strings.Join(others, ", ") + " only"
}

func (f folder) path(name string) string {
	return filepath.Join(f.root.Name(), filepath.FromSlash(name))
}

// stat describes what a name leads to, which must be in the folder.
func (f folder) stat(name string) (fs.FileInfo, error) {
	info, err := f.root.Stat(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		return info, err
	}
	if link, e := f.root.Lstat(name); e == nil && link.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%s is a link that leads out of %s: put what it leads to into the folder", f.path(name), f.root.Name())
	}
	return nil, err
}

// load reads a chart, an archive or unpacked.
func (f folder) load(name string) (*helmchart.Chart, error) {
	info, err := f.stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return f.unpack(name, info)
	}
	c := collection{folder: f, top: name, rules: ignore.Empty()}
	if rules, err := f.stat(name + "/" + ignore.HelmIgnore); err == nil {
		text, err := f.read(name+"/"+ignore.HelmIgnore, rules)
		if err != nil {
			return nil, err
		}
		if c.rules, err = ignore.Parse(bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", ignore.HelmIgnore, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	c.rules.AddDefaults()
	if err := c.walk(""); err != nil {
		return nil, err
	}
	return loader.LoadFiles(c.files)
}

func (f folder) unpack(name string, info fs.FileInfo) (*helmchart.Chart, error) {
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is neither a file nor a folder")
	}
	raw, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = raw.Close() }()
	ch, err := loader.LoadArchive(raw)
	if errors.Is(err, gzip.ErrHeader) {
		return nil, fmt.Errorf("it is not an archive of a chart: %w", err)
	}
	return ch, err
}

func (f folder) read(name string, info fs.FileInfo) ([]byte, error) {
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is neither a file nor a folder", f.path(name))
	case info.Size() > loader.MaxDecompressedFileSize:
		return nil, fmt.Errorf("%s has %d MiB, and Helm takes no file above %d", f.path(name), info.Size()>>20, loader.MaxDecompressedFileSize>>20)
	}
	return f.root.ReadFile(name)
}

// collection has the files of an unpacked chart, as Helm's loader reads them.
type collection struct {
	folder
	top     string // the chart's name in the folder
	rules   *ignore.Rules
	files   []*loader.BufferedFile
	entries int
	size    int64
}

// walk adds what is below dir, a path within the chart.
func (c *collection) walk(dir string) error {
	entries, err := fs.ReadDir(c.root.FS(), path.Join(c.top, dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if c.entries++; c.entries > maxEntries {
			return fmt.Errorf("it has more than %d files and folders: do links lead to the same ones?", maxEntries)
		}
		if err := c.add(path.Join(dir, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

func (c *collection) add(name string, e fs.DirEntry) error {
	full := path.Join(c.top, name)
	if own, err := e.Info(); err != nil || c.rules.Ignore(name, own) {
		return err
	}
	info, err := c.stat(full)
	switch {
	case err != nil:
		return err
	case c.rules.Ignore(name, info):
		return nil
	case info.IsDir():
		return c.walk(name)
	}
	data, err := c.read(full, info)
	if err != nil {
		return err
	}
	if c.size += int64(len(data)); c.size > loader.MaxDecompressedChartSize {
		return fmt.Errorf("it has more than %d MiB, and Helm takes no chart above that", loader.MaxDecompressedChartSize>>20)
	}
	const mark = "\xef\xbb\xbf" // of UTF-8, as Windows writes it
	c.files = append(c.files, &loader.BufferedFile{Name: name, Data: bytes.TrimPrefix(data, []byte(mark))})
	return nil
}
