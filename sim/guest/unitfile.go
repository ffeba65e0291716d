package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// unitFile is a unit as its files describe it, section by section.
type unitFile struct {
	path   string
	masked bool
	values map[string][]string // "Service.ExecStart" and so on
}

func (f *unitFile) get(key string) string {
	v := f.values[key]
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}

// unitDirs are where systemd looks, the first find counts.
func unitDirs() []string {
	return []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}
}

var errNoUnit = errors.New("not found")

// unitName adds ".service" where no type is given.
func unitName(name string) string {
	if path.Ext(name) == "" {
		return name + ".service"
	}
	return name
}

func loadUnit(v *view, name string) (*unitFile, error) {
	for _, dir := range unitDirs() {
		at := dir + "/" + name
		e, err := v.lstat(at)
		if err != nil {
			continue
		}
		if e.Mode()&fs.ModeSymlink != 0 && string(e.node.data) == "/dev/null" {
			return &unitFile{path: at, masked: true}, nil
		}
		data, err := v.readFile(at)
		if err != nil {
			continue
		}
		f := &unitFile{path: at, values: map[string][]string{}}
		f.parse(data)
		for _, dir := range slices.Backward(unitDirs()) {
			drops, _ := v.readDir(dir + "/" + name + ".d")
			for _, d := range drops {
				if data, err := v.readFile(dir + "/" + name + ".d/" + d.name); err == nil && strings.HasSuffix(d.name, ".conf") {
					f.parse(data)
				}
			}
		}
		return f, nil
	}
	return nil, errNoUnit
}

func (f *unitFile) parse(data []byte) {
	section, pending := "", ""
	for _, line := range lines(data) {
		line = strings.TrimSpace(pending + line)
		pending = ""
		if strings.HasSuffix(line, `\`) {
			pending = strings.TrimSuffix(line, `\`) + " "
			continue
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = line[1 : len(line)-1]
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		key = section + "." + strings.TrimSpace(key)
		if value = strings.TrimSpace(value); value == "" {
			delete(f.values, key) // an empty value resets a list
			continue
		}
		f.values[key] = append(f.values[key], value)
	}
}

// enable links a unit where its section Install says.
func (s *system) enable(name string) error {
	v := s.root()
	f, err := loadUnit(v, name)
	if err != nil {
		return fmt.Errorf("Failed to enable unit: Unit file %s does not exist.", name)
	}
	if f.masked {
		return fmt.Errorf("Failed to enable unit: Unit file %s is masked.", f.path)
	}
	for _, target := range strings.Fields(f.get("Install.WantedBy")) {
		link := "/etc/systemd/system/" + target + ".wants/" + name
		if _, err := v.lstat(link); err == nil {
			continue
		}
		if err := v.mkdirAll(path.Dir(link), 0o755); err != nil {
			return err
		}
		if err := v.symlink(f.path, link); err != nil {
			return err
		}
	}
	return nil
}

// wants returns the links that enabled units have.
func wants(v *view, name string) []string {
	var out []string
	dirs, _ := v.readDir("/etc/systemd/system")
	for _, d := range dirs {
		if !strings.HasSuffix(d.name, ".wants") {
			continue
		}
		links, _ := v.readDir("/etc/systemd/system/" + d.name)
		for _, l := range links {
			if name == "" || l.name == name {
				out = append(out, "/etc/systemd/system/"+d.name+"/"+l.name)
			}
		}
	}
	return out
}
