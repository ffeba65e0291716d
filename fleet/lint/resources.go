package lint

import (
	"fmt"
	"path"
	"strings"
)

// resources lists the files of the bundle's folder that go into the bundle.
func (t *lintTree) resources(s *BundleSource) []*lintFile {
	files, _ := t.storedFiles(s) // s.Err has the mistake
	return files
}

func (t *lintTree) storedFiles(s *BundleSource) ([]*lintFile, error) {
	config := map[string]bool{"fleet.yaml": true}
	if rel, own := s.ownOptions(); own {
		config[rel] = true
	}
	for _, h := range helms(&s.YAML) {
		for _, name := range h.ValuesFiles {
			config[name], config[path.Base(name)] = true, true
		}
	}
	if s.Dir != "." && strings.HasPrefix(path.Base(s.Dir), ".") {
		return nil, nil // hidden folders are skipped, even the bundle's own
	}
	c := collector{lintTree: t, prefix: s.prefix(), config: config}
	err := c.collect(s.Dir)
	return c.out, err
}

// collector walks a bundle's folder in the order of names.
type collector struct {
	*lintTree
	prefix  string
	config  map[string]bool
	ignored []ignoreRule
	out     []*lintFile
}

// ignoreRule is a pattern, and the folder whose .fleetignore has it.
type ignoreRule struct{ dir, text string }

func (c *collector) collect(dir string) error {
	if f := c.files[path.Join(dir, ".fleetignore")]; f != nil {
		for _, p := range readIgnore(f.data) {
			c.ignored = append(c.ignored, ignoreRule{dir, p.text})
		}
	}
	for _, name := range c.dirs[dir] {
		base, isDir := strings.CutSuffix(name, "/")
		full := path.Join(dir, base)
		ignored, err := isIgnored(c.ignored, full, isDir)
		switch {
		case err != nil:
			return fmt.Errorf("%s: .fleetignore: %w", full, err)
		case strings.HasPrefix(base, "."), c.config[strings.TrimPrefix(full, c.prefix)], ignored:
		case isDir:
			if err := c.collect(full); err != nil {
				return err
			}
		default:
			c.out = append(c.out, c.files[full])
		}
	}
	return nil
}

// ignoreLine is a pattern of a .fleetignore.
type ignoreLine struct {
	line int
	text string
}

func readIgnore(data []byte) (out []ignoreLine) {
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		text = strings.TrimRight(text, "\r\n")
		if cut := strings.TrimRight(text, " \t"); !strings.HasSuffix(cut, `\`) {
			text = cut
		}
		if text != "" && !strings.HasPrefix(text, "#") {
			out = append(out, ignoreLine{line, text})
		}
	}
	return out
}

// isIgnored: patterns are compared with the last part of a path only; "name/*" excludes
// folders of that name. A folder's patterns apply to every path with the folder's path as
// prefix, so those of app apply in app-two (bundlereader/loaddirectory.go isIgnored,
// findNode).
func isIgnored(rules []ignoreRule, full string, isDir bool) (bool, error) {
	base := path.Base(full)
	for _, r := range rules {
		if r.dir != "." && !strings.HasPrefix(full, r.dir) {
			continue
		}
		if i := strings.LastIndex(r.text, "/*"); i > 0 {
			if isDir && strings.TrimSuffix(r.text, "/*") == base {
				return true, nil
			}
			continue
		}
		if ok, err := path.Match(r.text, base); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
